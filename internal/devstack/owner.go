package devstack

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// owner is the user that a private cluster belongs to and runs as. PostgreSQL refuses to run as root, so root hands
// the cluster to another user; for everybody else the owner is themselves, the zero value.
type owner struct {
	name string
	cred *syscall.Credential // nil: the user of this process
}

// clusterOwner returns the owner for a process of this user: for root it is postgres, else nobody.
func clusterOwner() (owner, error) {
	if os.Geteuid() != 0 {
		return owner{}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		cred, err := credential(u)
		if err != nil {
			return owner{}, fmt.Errorf("user %s: %w", name, err)
		}
		if cred.Uid != 0 {
			return owner{name: name, cred: cred}, nil
		}
	}
	return owner{}, errors.New("PostgreSQL does not run as root, and there is neither a user postgres nor a user nobody " +
		"to run it as: run as a normal user, or pass --database-url")
}

func credential(u *user.User) (*syscall.Credential, error) {
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("user id %q: %w", u.Uid, err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("group id %q: %w", u.Gid, err)
	}
	ids, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("listing groups: %w", err)
	}
	cred := &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	for _, id := range ids {
		if group, err := strconv.ParseUint(id, 10, 32); err == nil {
			cred.Groups = append(cred.Groups, uint32(group))
		}
	}
	return cred, nil
}

// apply makes cmd run as the owner, in a directory the owner may stand in.
func (o owner) apply(cmd *exec.Cmd, dir string) {
	cmd.Dir = dir
	if o.cred != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: o.cred}
	}
}

// give makes the owner the owner of path.
func (o owner) give(path string) error {
	if o.cred == nil {
		return nil
	}
	if err := os.Chown(path, int(o.cred.Uid), int(o.cred.Gid)); err != nil {
		return fmt.Errorf("giving %s to user %s: %w", path, o.name, err)
	}
	return nil
}

// blockedAt returns the first directory on the way to path, path included, that the owner may not enter, or "" if
// the way is free. Parts that do not exist yet block nobody.
func (o owner) blockedAt(path string) (string, error) {
	if o.cred == nil {
		return "", nil
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("resolving %s: %w", path, err)
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		abs = real
	}
	var way []string
	for dir := abs; ; dir = filepath.Dir(dir) {
		way = append(way, dir)
		if dir == filepath.Dir(dir) {
			break
		}
	}
	for _, dir := range slices.Backward(way) {
		info, err := os.Stat(dir)
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
		if err != nil {
			return "", fmt.Errorf("looking at %s: %w", dir, err)
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if ok && !mayEnter(info.Mode(), stat.Uid, stat.Gid, o.cred) {
			return dir, nil
		}
	}
	return "", nil
}

// mayEnter says whether cred has the search permission of a directory with these permission bits and owners.
func mayEnter(mode fs.FileMode, uid, gid uint32, cred *syscall.Credential) bool {
	switch {
	case uid == cred.Uid:
		return mode&0o100 != 0
	case gid == cred.Gid || slices.Contains(cred.Groups, gid):
		return mode&0o010 != 0
	default:
		return mode&0o001 != 0
	}
}
