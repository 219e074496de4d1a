// Package doctest holds README and docs against the code: what they name must exist, and what an operator can meet must be
// named in them.
package doctest_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/verify"
)

const repository = "../.."

// pages gives the text of every page by its path from the repository's root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	pages := map[string]string{"README.md": read(t, "README.md"), "CHANGELOG.md": read(t, "CHANGELOG.md")}
	found, err := filepath.Glob(filepath.Join(repository, "docs", "*.md"))
	require.NoError(t, err)
	require.NotEmpty(t, found)
	for _, file := range found {
		name := filepath.Join("docs", filepath.Base(file))
		pages[name] = read(t, name)
	}
	return pages
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, name))
	require.NoError(t, err)
	return string(text)
}

// everything is the text of all pages.
func everything(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, text := range pages(t) {
		all.WriteString(text)
	}
	return all.String()
}

// source is the text of all Go files of the program, without its tests.
func source(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	require.NoError(t, filepath.WalkDir(repository, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() && strings.HasPrefix(name, ".") && path != repository {
			return filepath.SkipDir
		}
		if strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			text, err := os.ReadFile(path)
			all.Write(text)
			return err
		}
		return nil
	}))
	return all.String()
}

// matches gives the first group of every match, each once.
func matches(pattern, text string) []string {
	var found []string
	for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		found = append(found, match[1])
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// requireRow wants a table's row about name; the page would be a long message.
func requireRow(t *testing.T, page, name, where string) {
	t.Helper()
	require.True(t, strings.Contains(page, "| `"+name+"` |"), "%s has no row for %s", where, name)
}

func TestEveryRelativeLinkLeadsSomewhere(t *testing.T) {
	t.Parallel()
	all := pages(t)
	followed := 0
	for name, text := range all {
		for _, link := range matches(`\]\(([^)\s]+)\)`, text) {
			if strings.Contains(link, "://") {
				continue
			}
			followed++
			path, anchor, _ := strings.Cut(link, "#")
			target := name
			if path != "" {
				target = filepath.Join(filepath.Dir(name), path)
				require.FileExists(t, filepath.Join(repository, target), "%s links to %s", name, link)
			}
			if anchor != "" {
				require.Contains(t, anchors(all[target]), anchor, "%s links to %s", name, link)
			}
		}
	}
	require.Greater(t, followed, 10)
}

// anchors are the names that GitHub gives to a page's headings.
func anchors(page string) (names []string) {
	for _, heading := range matches(`(?m)^#+ (.+)$`, page) {
		names = append(names, strings.Map(func(r rune) rune {
			switch {
			case r == ' ' || r == '-':
				return '-'
			case r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, heading))
	}
	return names
}

func TestEveryFileThatAPageNamesExists(t *testing.T) {
	t.Parallel()
	named := 0
	for page, text := range pages(t) {
		for _, file := range matches("`((?:cmd|api|worker|workflows|activities|migrations|internal|deploy)/[a-z0-9_/]+\\.[a-z]+)`", text) {
			named++
			require.FileExists(t, filepath.Join(repository, file), "named in %s", page)
		}
	}
	require.Greater(t, named, 10)
}

func TestEveryOutcomeIsExplained(t *testing.T) {
	t.Parallel()
	outcomes := matches(`Outcome\s+= "([A-Z_]+)"`, read(t, "internal/payment/event.go"))
	require.Greater(t, len(outcomes), 10)
	page := read(t, "docs/state-machine.md")
	for _, outcome := range outcomes {
		requireRow(t, page, outcome, "the table of outcomes")
	}
}

func TestEveryAlertSaysWhatToDo(t *testing.T) {
	t.Parallel()
	alerts := matches(`= "([a-z_]+)"`, read(t, "internal/alert/alert.go"))
	require.NotEmpty(t, alerts)
	page := read(t, "docs/operations.md")
	for _, alert := range alerts {
		requireRow(t, page, alert, "the table of alerts")
	}
}

func TestEveryInvariantSaysWhatToDo(t *testing.T) {
	t.Parallel()
	page := read(t, "docs/operations.md")
	var names []string
	for _, invariant := range verify.Invariants() {
		names = append(names, invariant.Name)
		requireRow(t, page, invariant.Name, "the table of invariants")
	}
	_, table, _ := strings.Cut(page, "| invariant |")
	table, _, _ = strings.Cut(table, "\n\n")
	require.ElementsMatch(t, names, matches("(?m)^\\| `([a-z_]+)` \\|", table))
}

func TestMetricsAreThoseOfTheProgram(t *testing.T) {
	t.Parallel()
	const metric = `(paylatch_[a-z_]*[a-z])`
	code := matches(`Name: "`+metric+`"`, source(t))
	require.NotEmpty(t, code)
	page := read(t, "docs/operations.md")
	for _, name := range code {
		requireRow(t, page, name, "the table of metrics")
	}
	// The database's roles have the same form.
	known := append(code, "paylatch_api", "paylatch_engine")
	for name, text := range pages(t) {
		for _, named := range matches(`\b`+metric+`\b`, text) {
			require.Contains(t, known, named, name)
		}
	}
}

func TestEnvironmentVariablesAreThoseOfTheProgram(t *testing.T) {
	t.Parallel()
	code := source(t) + read(t, "internal/e2e/once_test.go")
	page := read(t, "docs/operations.md")
	for _, tag := range matches(`env:"([A-Z_,]+)"`, code) {
		for variable := range strings.SplitSeq(tag, ",") {
			require.True(t, strings.Contains(page, "`"+variable+"`"), "%s is not in the table of variables", variable)
		}
	}
	for _, variable := range matches(`\b(PAYLATCH_[A-Z_]+[A-Z])\b`, everything(t)) {
		require.True(t, strings.Contains(code, `"`+variable+`"`), "no code reads %s", variable)
	}
}
