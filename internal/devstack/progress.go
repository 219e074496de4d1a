package devstack

import (
	"fmt"
	"io"
)

// progress writes lines for people. Each line is one Write, so lines of two servers do not mix.
type progress struct{ w io.Writer }

func (p progress) line(format string, args ...any) {
	if p.w != nil {
		_, _ = fmt.Fprintf(p.w, format+"\n", args...)
	}
}
