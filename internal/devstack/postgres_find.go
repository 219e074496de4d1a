package devstack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

// oldestPostgres is the oldest major version the product runs on.
const oldestPostgres = 14

// postgresFolders are the places where packages put PostgreSQL without putting it on PATH.
var postgresFolders = []string{
	"/usr/lib/postgresql/*/bin",                          // Debian, Ubuntu
	"/usr/pgsql-*/bin",                                   // RHEL, Fedora
	"/opt/homebrew/opt/postgresql@*/bin",                 // Homebrew, Apple silicon
	"/opt/homebrew/bin",                                  //
	"/usr/local/opt/postgresql@*/bin",                    // Homebrew, Intel
	"/Applications/Postgres.app/Contents/Versions/*/bin", // Postgres.app, whose "latest" is a link to one of them
}

// postgresInstall is a folder with the programs of one PostgreSQL.
type postgresInstall struct {
	binDir       string
	major, minor int
}

// findPostgres decides which installed PostgreSQL is used: the one on PATH, else the newest of the usual folders. Only
// versions from oldestPostgres on count, and only major itself if it is not 0, as a cluster needs the version that
// made it.
func findPostgres(m machine, major int) (binDir string, ok bool) {
	if file, found := m.onPath("postgres"); found {
		if install, usable := m.postgresIn(filepath.Dir(file), major); usable {
			return install.binDir, true
		}
	}
	var installs []postgresInstall
	for _, pattern := range postgresFolders {
		for _, dir := range m.glob(pattern) {
			if install, usable := m.postgresIn(dir, major); usable {
				installs = append(installs, install)
			}
		}
	}
	if len(installs) == 0 {
		return "", false
	}
	newest := slices.MaxFunc(installs, func(a, b postgresInstall) int {
		return cmp.Or(cmp.Compare(a.major, b.major), cmp.Compare(a.minor, b.minor))
	})
	return newest.binDir, true
}

func (m machine) postgresIn(binDir string, major int) (install postgresInstall, usable bool) {
	server := filepath.Join(binDir, "postgres")
	if !m.isProgram(server) || !m.isProgram(filepath.Join(binDir, "initdb")) {
		return postgresInstall{}, false
	}
	install = parsePostgresVersion(m.version(server))
	install.binDir = binDir
	return install, install.major >= oldestPostgres && (major == 0 || install.major == major)
}

var postgresVersion = regexp.MustCompile(`\(PostgreSQL\) (\d+)(?:\.(\d+))?`)

// parsePostgresVersion reads "postgres (PostgreSQL) 15.14 (Debian …)" and "postgres (PostgreSQL) 18beta1".
func parsePostgresVersion(text string) postgresInstall {
	match := postgresVersion.FindStringSubmatch(text)
	if match == nil {
		return postgresInstall{}
	}
	major, _ := strconv.Atoi(match[1])
	minor, _ := strconv.Atoi(match[2])
	return postgresInstall{major: major, minor: minor}
}

// obtainPostgres returns the folder of the PostgreSQL to use and downloads one if there is none.
func obtainPostgres(ctx context.Context, major int, say progress) (binDir string, err error) {
	return choosePostgres(thisMachine(), major, func() (string, error) {
		dir, err := postgresCacheDir()
		if err != nil {
			return "", err
		}
		return downloadOnce(ctx, dir, say)
	})
}

// choosePostgres is the decision of obtainPostgres. The error is one sentence that says what to do.
func choosePostgres(m machine, major int, download func() (string, error)) (binDir string, err error) {
	if binDir, ok := findPostgres(m, major); ok {
		return binDir, nil
	}
	if major != 0 && major != downloadedPostgres {
		return "", fmt.Errorf("the cluster was made by PostgreSQL %d, and that version is not installed: install it (Debian: "+
			"apt-get install postgresql-%d; macOS: brew install postgresql@%d), or choose another directory with --data", major, major, major)
	}
	binDir, err = download()
	if errors.Is(err, context.Canceled) {
		return "", err
	}
	if err != nil {
		return "", fmt.Errorf("no PostgreSQL found and the download failed (%w): install it (Debian: apt-get install "+
			"postgresql; macOS: brew install postgresql@17) or pass --database-url", err)
	}
	return binDir, nil
}
