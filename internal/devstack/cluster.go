package devstack

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// cluster is a private PostgreSQL cluster on disk. Below dir:
//
//	cluster/      the data directory, or a symbolic link to it (see place)
//	password      of the superuser, mode 0600
//	postgres.log  what the server says
//	lock          held by the process that uses the directory
type cluster struct {
	dir   string
	data  string // the real data directory
	owner owner
	say   progress
}

const superuser = "postgres"

func (c *cluster) link() string         { return filepath.Join(c.dir, "cluster") }
func (c *cluster) passwordFile() string { return filepath.Join(c.dir, "password") }
func (c *cluster) logFile() string      { return filepath.Join(c.dir, "postgres.log") }
func (c *cluster) pidFile() string      { return filepath.Join(c.data, "postmaster.pid") }

// openCluster finds the cluster of dir or decides where a new one goes; it makes no cluster yet.
func openCluster(dir string, say progress) (*cluster, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("resolving the data directory: %w", err)
	}
	o, err := clusterOwner()
	if err != nil {
		return nil, err
	}
	c := &cluster{dir: abs, owner: o, say: say}
	if err := os.MkdirAll(abs, 0o755); err != nil {
		return nil, fmt.Errorf("making the data directory: %w", err)
	}
	return c, nil
}

// place settles where the data directory is. It is below dir, unless the owner may not go there, as with root's own
// home or temporary directories: then it is in a directory of its own outside, and dir keeps a symbolic link to it.
func (c *cluster) place() error {
	target, err := os.Readlink(c.link())
	if err == nil {
		if _, err := os.Stat(filepath.Dir(target)); err == nil {
			c.data = target
			return nil
		}
		c.say.line("the PostgreSQL data that %s points to is gone: making a new, empty cluster", c.link())
		if err := os.Remove(c.link()); err != nil {
			return fmt.Errorf("removing a link to lost data: %w", err)
		}
	}
	blocked, err := c.owner.blockedAt(c.dir)
	if err != nil {
		return err
	}
	if blocked == "" {
		c.data = c.link()
		return nil
	}
	return c.placeOutside(blocked)
}

func (c *cluster) placeOutside(blocked string) error {
	parent := outsideParent(c.dir, os.TempDir())
	also, err := c.owner.blockedAt(parent)
	if err != nil {
		return err
	}
	if also != "" {
		return fmt.Errorf("PostgreSQL does not run as root but as user %s, who may enter neither %s nor %s: choose another "+
			"directory with --data, or run as a normal user", c.owner.name, blocked, also)
	}
	home, err := os.MkdirTemp(parent, "paylatch-"+strconv.Itoa(os.Getuid())+"-")
	if err != nil {
		return fmt.Errorf("making a directory that user %s can reach: %w", c.owner.name, err)
	}
	if err := c.owner.give(home); err != nil {
		return err
	}
	c.data = filepath.Join(home, "cluster")
	if err := os.Symlink(c.data, c.link()); err != nil {
		return fmt.Errorf("noting where the cluster is: %w", err)
	}
	c.say.line("PostgreSQL runs as user %s, who may not enter %s: its data is in %s instead", c.owner.name, blocked, c.data)
	return nil
}

// outsideParent says where a cluster goes that cannot be below dir. What was meant to be temporary stays temporary;
// everything else goes where a reboot does not delete it.
func outsideParent(dir, temp string) string {
	if rel, err := filepath.Rel(temp, dir); err == nil && filepath.IsLocal(rel) {
		return temp
	}
	return "/var/lib"
}

// major is the PostgreSQL version that made the cluster, 0 if there is none yet.
func (c *cluster) major() (int, error) {
	raw, err := os.ReadFile(filepath.Join(c.data, "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("reading the version of the cluster: %w", err)
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		return 0, fmt.Errorf("reading the version of the cluster in %s: %w", c.data, err)
	}
	return major, nil
}

// create makes the cluster with the given password. It is made beside its place and renamed, so a cluster that is in
// its place is whole, whenever this process is killed.
func (c *cluster) create(ctx context.Context, binDir, password string) error {
	fresh := c.data + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return fmt.Errorf("removing a half-made cluster: %w", err)
	}
	if err := os.Mkdir(fresh, 0o700); err != nil {
		return fmt.Errorf("making the cluster's directory: %w", err)
	}
	if err := c.owner.give(fresh); err != nil {
		return err
	}
	if err := c.initdb(ctx, binDir, fresh, password); err != nil {
		return err
	}
	if err := os.Rename(fresh, c.data); err != nil {
		return fmt.Errorf("putting the new cluster in its place: %w", err)
	}
	return syncDir(filepath.Dir(c.data))
}

// initdb fills fresh. Not every system has the locale C.UTF-8; C sorts the same way and knows fewer letters.
func (c *cluster) initdb(ctx context.Context, binDir, fresh, password string) error {
	passwordFile := fresh + ".password"
	defer func() { _ = os.Remove(passwordFile) }()
	if err := os.WriteFile(passwordFile, []byte(password+"\n"), 0o600); err != nil {
		return fmt.Errorf("handing the password to initdb: %w", err)
	}
	if err := c.owner.give(passwordFile); err != nil {
		return err
	}
	var first error
	for _, locale := range []string{"C.UTF-8", "C"} {
		var output bytes.Buffer
		cmd := exec.Command(filepath.Join(binDir, "initdb"), "--pgdata="+fresh, "--username="+superuser,
			"--pwfile="+passwordFile, "--auth-host=scram-sha-256", "--auth-local=scram-sha-256",
			"--data-checksums", "--encoding=UTF8", "--locale="+locale)
		cmd.Stdout, cmd.Stderr = &output, &output
		c.owner.apply(cmd, fresh)
		err := runToEnd(ctx, cmd)
		if err == nil {
			return nil
		}
		if first == nil {
			first = fmt.Errorf("making a PostgreSQL cluster: %w: %s", err, strings.TrimSpace(output.String()))
		}
		if ctx.Err() != nil || !strings.Contains(output.String(), "locale") {
			break
		}
	}
	return first
}

// password returns the superuser's password; a new cluster gets a new one.
func (c *cluster) password() (string, error) {
	raw, err := os.ReadFile(c.passwordFile())
	if err == nil {
		return strings.TrimSpace(string(raw)), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("reading the database password: %w", err)
	}
	if _, err := os.Stat(c.data); err == nil {
		return "", fmt.Errorf("the cluster in %s is there, but %s, its password, is missing: bring it back, or remove both to "+
			"start afresh", c.data, c.passwordFile())
	}
	password := rand.Text()
	// Written beside and renamed: an empty password file would lock us out of the cluster made with it.
	draft := c.passwordFile() + ".new"
	if err := writeSynced(draft, password+"\n"); err != nil {
		return "", fmt.Errorf("keeping the database password: %w", err)
	}
	if err := os.Rename(draft, c.passwordFile()); err != nil {
		return "", fmt.Errorf("keeping the database password: %w", err)
	}
	return password, syncDir(c.dir)
}

// remove deletes the cluster and all that is in its directory.
func (c *cluster) remove() error {
	for _, path := range []string{c.data, c.data + ".new", c.dir} {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("removing the cluster: %w", err)
		}
	}
	if c.data != c.link() {
		// The directory outside goes too, unless somebody keeps other things in it.
		_ = os.Remove(filepath.Dir(c.data))
	}
	return nil
}

// writeSynced writes a file that only this user may read and that is on disk when it returns.
func writeSynced(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// syncDir makes the names in dir survive a crash of the machine.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("opening %s: %w", dir, err)
	}
	defer func() { _ = d.Close() }()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("syncing %s: %w", dir, err)
	}
	return nil
}
