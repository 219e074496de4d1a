package channel

import "fmt"

// Set is the channels that a process knows, by name.
type Set map[string]Channel

// NewSet gathers channels; two of one name are a programming error.
func NewSet(channels ...Channel) Set {
	set := Set{}
	for _, c := range channels {
		if _, twice := set[c.Name()]; twice {
			panic(fmt.Sprintf("channel %s is registered twice", c.Name()))
		}
		set[c.Name()] = c
	}
	return set
}
