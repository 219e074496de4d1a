package devstack

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// machine is what the searches for programs ask of this computer. Tests answer from a table.
type machine struct {
	onPath    func(name string) (file string, ok bool)
	glob      func(pattern string) []string
	isProgram func(file string) bool
	// version is what `file --version` prints, "" if that fails.
	version func(file string) string
	// goBin lists the folders where the go command installs programs.
	goBin []string
}

func thisMachine() machine {
	return machine{
		onPath: func(name string) (string, bool) {
			file, err := exec.LookPath(name)
			return file, err == nil
		},
		glob: func(pattern string) []string {
			found, _ := filepath.Glob(pattern)
			return found
		},
		isProgram: func(file string) bool {
			info, err := os.Stat(file)
			return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
		},
		version: func(file string) string {
			out, err := exec.Command(file, "--version").Output()
			if err != nil {
				return ""
			}
			return string(out)
		},
		goBin: goBinFolders(),
	}
}

func goBinFolders() []string {
	var folders []string
	if dir := os.Getenv("GOBIN"); dir != "" {
		folders = append(folders, dir)
	}
	for _, dir := range filepath.SplitList(os.Getenv("GOPATH")) {
		folders = append(folders, filepath.Join(dir, "bin"))
	}
	if home, err := os.UserHomeDir(); err == nil {
		folders = append(folders, filepath.Join(home, "go", "bin"))
	}
	return slices.Compact(folders)
}

// cacheDir is where programs that we fetched are kept for this user.
func cacheDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	return filepath.Join(dir, "paylatch")
}
