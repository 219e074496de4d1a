package devstack

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// tableMachine has the given files: each is a program that prints its value for --version.
func tableMachine(path map[string]string, files map[string]string) machine {
	return machine{
		onPath: func(name string) (string, bool) {
			file, ok := path[name]
			return file, ok
		},
		glob: func(pattern string) []string {
			found := map[string]bool{}
			for file := range files {
				for dir := file; dir != "/"; dir = filepath.Dir(dir) {
					if ok, _ := filepath.Match(pattern, dir); ok {
						found[dir] = true
					}
				}
			}
			return slices.Sorted(maps.Keys(found))
		},
		isProgram: func(file string) bool { _, ok := files[file]; return ok },
		version:   func(file string) string { return files[file] },
		goBin:     []string{"/home/u/go/bin"},
	}
}

// postgresAt makes the files of PostgreSQL installations: folder to version.
func postgresAt(installs map[string]string) map[string]string {
	files := map[string]string{}
	for dir, version := range installs {
		files[dir+"/postgres"] = "postgres (PostgreSQL) " + version + "\n"
		files[dir+"/initdb"] = ""
	}
	return files
}

func TestWhichPostgresIsUsed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path  map[string]string
		files map[string]string
		major int
		want  string // "" for none
	}{
		"PATH wins over a newer one elsewhere": {
			path:  map[string]string{"postgres": "/opt/pg/bin/postgres"},
			files: postgresAt(map[string]string{"/opt/pg/bin": "15.3", "/usr/lib/postgresql/17/bin": "17.0"}),
			want:  "/opt/pg/bin",
		},
		"one on PATH without initdb is passed over": {
			path: map[string]string{"postgres": "/opt/pg/bin/postgres"},
			files: map[string]string{
				"/opt/pg/bin/postgres":                "postgres (PostgreSQL) 15.3",
				"/usr/lib/postgresql/14/bin/postgres": "postgres (PostgreSQL) 14.1",
				"/usr/lib/postgresql/14/bin/initdb":   "",
			},
			want: "/usr/lib/postgresql/14/bin",
		},
		"one on PATH that is too old is passed over": {
			path:  map[string]string{"postgres": "/opt/pg/bin/postgres"},
			files: postgresAt(map[string]string{"/opt/pg/bin": "13.9", "/usr/pgsql-16/bin": "16.1"}),
			want:  "/usr/pgsql-16/bin",
		},
		"versions compare as numbers": {
			files: postgresAt(map[string]string{"/usr/lib/postgresql/9.6/bin": "9.6.24", "/usr/lib/postgresql/14/bin": "14.2",
				"/usr/lib/postgresql/15/bin": "15.9 (Debian 15.9-1)", "/usr/pgsql-15/bin": "15.14"}),
			want: "/usr/pgsql-15/bin",
		},
		"too old ones alone are none": {
			files: postgresAt(map[string]string{"/usr/lib/postgresql/9.6/bin": "9.6.24", "/usr/lib/postgresql/13/bin": "13.2"}),
		},
		"a broken one is none": {
			files: map[string]string{"/usr/lib/postgresql/15/bin/postgres": "", "/usr/lib/postgresql/15/bin/initdb": ""},
		},
		"Homebrew": {
			files: postgresAt(map[string]string{"/opt/homebrew/opt/postgresql@16/bin": "16.2 (Homebrew)", "/opt/homebrew/bin": "14.5"}),
			want:  "/opt/homebrew/opt/postgresql@16/bin",
		},
		"Homebrew without a version in its path": {
			files: postgresAt(map[string]string{"/opt/homebrew/bin": "18beta1"}),
			want:  "/opt/homebrew/bin",
		},
		"Homebrew on Intel": {
			files: postgresAt(map[string]string{"/usr/local/opt/postgresql@15/bin": "15.1"}),
			want:  "/usr/local/opt/postgresql@15/bin",
		},
		"Postgres.app": {
			files: postgresAt(map[string]string{"/Applications/Postgres.app/Contents/Versions/15/bin": "15.1",
				"/Applications/Postgres.app/Contents/Versions/latest/bin": "16.0"}),
			want: "/Applications/Postgres.app/Contents/Versions/latest/bin",
		},
		"a cluster needs the version that made it": {
			path:  map[string]string{"postgres": "/opt/pg/bin/postgres"},
			files: postgresAt(map[string]string{"/opt/pg/bin": "17.3", "/usr/lib/postgresql/15/bin": "15.1"}),
			major: 15,
			want:  "/usr/lib/postgresql/15/bin",
		},
		"a cluster of a version that is gone": {
			files: postgresAt(map[string]string{"/usr/lib/postgresql/17/bin": "17.1"}),
			major: 15,
		},
		"nothing installed": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := findPostgres(tableMachine(c.path, c.files), c.major)
			require.Equal(t, c.want, got)
			require.Equal(t, c.want != "", ok)
		})
	}
}

func TestPostgresIsDownloadedOnlyWhenNoneIsInstalled(t *testing.T) {
	t.Parallel()
	installed := tableMachine(nil, postgresAt(map[string]string{"/usr/lib/postgresql/15/bin": "15.1"}))
	none := tableMachine(nil, nil)
	never := func() (string, error) { t.Error("downloaded"); return "", nil }

	got, err := choosePostgres(installed, 0, never)
	require.NoError(t, err)
	require.Equal(t, "/usr/lib/postgresql/15/bin", got)

	got, err = choosePostgres(none, 0, func() (string, error) { return "/cache/17/bin", nil })
	require.NoError(t, err)
	require.Equal(t, "/cache/17/bin", got)

	got, err = choosePostgres(installed, downloadedPostgres, func() (string, error) { return "/cache/17/bin", nil })
	require.NoError(t, err, "a cluster made by the downloaded version")
	require.Equal(t, "/cache/17/bin", got)

	_, err = choosePostgres(installed, 16, never)
	require.EqualError(t, err, "the cluster was made by PostgreSQL 16, and that version is not installed: install it (Debian: "+
		"apt-get install postgresql-16; macOS: brew install postgresql@16), or choose another directory with --data")

	_, err = choosePostgres(none, 0, func() (string, error) { return "", errors.New("no route") })
	require.EqualError(t, err, "no PostgreSQL found and the download failed (no route): install it (Debian: apt-get install "+
		"postgresql; macOS: brew install postgresql@17) or pass --database-url")
}

func TestWhichTemporalIsUsed(t *testing.T) {
	t.Parallel()
	const inCache, built = "/cache/temporal-cli-" + temporalVersion, "/cache/bin/temporal"
	for name, c := range map[string]struct {
		path  map[string]string
		files []string
		want  string
	}{
		"PATH first":                       {path: map[string]string{"temporal": "/bin/temporal"}, files: []string{"/home/u/go/bin/temporal", built}, want: "/bin/temporal"},
		"then what go installed":           {files: []string{"/home/u/go/bin/temporal", built, inCache}, want: "/home/u/go/bin/temporal"},
		"then what we built":               {files: []string{built, inCache}, want: built},
		"then what we downloaded":          {files: []string{inCache}, want: inCache},
		"a download of another version is": {files: []string{"/cache/temporal-cli-v0.1.0"}},
		"nothing installed":                {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{}
			for _, file := range c.files {
				files[file] = ""
			}
			got, ok := findTemporal(tableMachine(c.path, files), "/cache")
			require.Equal(t, c.want, got)
			require.Equal(t, c.want != "", ok)
		})
	}
}

func TestTemporalIsFetchedByTheFirstWayThatWorks(t *testing.T) {
	t.Parallel()
	const built = "/cache/bin/temporal"
	for name, c := range map[string]struct {
		installed             bool
		download, build       error
		downloaded            bool
		wantTried             []string
		wantFile, wantFailure string
	}{
		"installed": {installed: true, wantFile: built},
		"download":  {downloaded: true, wantTried: []string{"download"}, wantFile: "/cache/temporal-cli-" + temporalVersion},
		"a download whose trial run fails is still a download": {
			downloaded: true, download: errors.New("no port"), wantTried: []string{"download"}, wantFile: "/cache/temporal-cli-" + temporalVersion,
		},
		"build after a failed download": {download: errors.New("no route"), wantTried: []string{"download", "build"}, wantFile: built},
		"neither": {
			download: errors.New("no route"), build: errors.New("there is no go command"), wantTried: []string{"download", "build"},
			wantFailure: "no Temporal CLI found (the download failed: no route; the build failed: there is no go command): install it " +
				"(https://docs.temporal.io/cli, or macOS: brew install temporal, or with Go: go install " +
				"github.com/temporalio/cli/cmd/temporal@v1.5.1) or pass --temporal-address",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{}
			if c.installed {
				files[built] = ""
			}
			var tried []string
			got, err := chooseTemporal(t.Context(), tableMachine(nil, files), "/cache", []fetch{
				{"download", func(context.Context) error {
					tried = append(tried, "download")
					if c.downloaded {
						files["/cache/temporal-cli-"+temporalVersion] = ""
					}
					return c.download
				}},
				{"build", func(context.Context) error {
					tried = append(tried, "build")
					if c.build == nil {
						files[built] = ""
					}
					return c.build
				}},
			})
			require.Equal(t, c.wantTried, tried)
			require.Equal(t, c.wantFile, got)
			if c.wantFailure == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, c.wantFailure)
			}
		})
	}
}

func TestAnInterruptedFetchIsNotFollowedByTheNext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	_, err := chooseTemporal(ctx, tableMachine(nil, nil), "/cache", []fetch{
		{"download", func(context.Context) error { cancel(); return errors.New("cut short") }},
		{"build", func(context.Context) error { t.Error("built"); return nil }},
	})
	require.ErrorIs(t, err, context.Canceled)
}

func TestWhoMayEnterADirectory(t *testing.T) {
	t.Parallel()
	cred := &syscall.Credential{Uid: 101, Gid: 104, Groups: []uint32{103}}
	for name, c := range map[string]struct {
		mode     uint32
		uid, gid uint32
		want     bool
	}{
		"root's own, closed":             {0o700, 0, 0, false},
		"root's own, open to pass":       {0o711, 0, 0, true},
		"own":                            {0o700, 101, 0, true},
		"own but closed to itself":       {0o077, 101, 0, false},
		"of the group":                   {0o710, 0, 104, true},
		"of another group of the user":   {0o710, 0, 103, true},
		"open to all but the user's own": {0o701, 0, 104, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, mayEnter(fs.FileMode(c.mode), c.uid, c.gid, cred))
		})
	}
}

func TestWhereAClusterGoesThatCannotStayInItsDirectory(t *testing.T) {
	t.Parallel()
	require.Equal(t, "/tmp", outsideParent("/tmp/TestX1/001", "/tmp"), "temporary data stays temporary")
	require.Equal(t, "/var/lib", outsideParent("/home/shop/.paylatch/postgres", "/tmp"), "other data survives a reboot")
	require.Equal(t, "/var/lib", outsideParent("/tmpfiles/x", "/tmp"))
}

func TestDelayBeforeARestartGrowsAndForgets(t *testing.T) {
	t.Parallel()
	var delays []string
	var delay time.Duration
	for range 6 {
		delay = nextDelay(delay, 0)
		delays = append(delays, strconv.Itoa(int(delay.Seconds())))
	}
	require.Equal(t, []string{"1", "2", "4", "8", "10", "10"}, delays)
	require.Equal(t, firstDelay, nextDelay(longestDelay, time.Minute), "a server that ran well is trusted again")
}
