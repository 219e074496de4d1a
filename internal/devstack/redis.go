package devstack

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ErrNoRedis says that no redis-server is installed. Redis is optional, so nothing fetches it.
var ErrNoRedis = errors.New("redis-server is not installed (Debian: apt-get install redis-server)")

// Redis is a Redis server for tests on 127.0.0.1. It keeps nothing on disk: killed, it has forgotten all.
type Redis struct {
	port    int
	program string
	owner   owner

	// life lets one of Start, Kill, Pause and Resume run at a time.
	life  sync.Mutex
	child *child
}

const redisPatience = 20 * time.Second

// StartRedis starts a Redis on a free port; Kill ends it. Error: [ErrNoRedis].
func StartRedis(ctx context.Context) (*Redis, error) {
	m := thisMachine()
	program, ok := m.onPath("redis-server")
	if !ok && m.isProgram("/usr/bin/redis-server") {
		program, ok = "/usr/bin/redis-server", true
	}
	if !ok {
		return nil, ErrNoRedis
	}
	owner, err := clusterOwner()
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	r := &Redis{port: port, program: program, owner: owner}
	return r, r.Start(ctx)
}

// URL is redis://127.0.0.1:port.
func (r *Redis) URL() string { return "redis://" + localAddress(r.port) }

// Start starts it again, empty, after Kill.
func (r *Redis) Start(ctx context.Context) error {
	r.life.Lock()
	defer r.life.Unlock()
	if r.child != nil {
		return nil
	}
	cmd := exec.Command(r.program, "--port", strconv.Itoa(r.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--daemonize", "no")
	r.owner.apply(cmd, os.TempDir())
	c, err := launch(cmd, syscall.SIGKILL)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, redisPatience)
	defer cancel()
	for {
		if err = r.ping(ctx); err == nil {
			r.child = c
			return nil
		}
		select {
		case <-c.alive.Done():
			return fmt.Errorf("redis-server %w", errEnded)
		case <-ctx.Done():
			c.kill()
			<-c.alive.Done()
			return fmt.Errorf("redis-server does not answer: %w", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (r *Redis) ping(ctx context.Context) error {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", localAddress(r.port))
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && !strings.HasPrefix(answer, "+PONG") {
		err = fmt.Errorf("it answers %q", answer)
	}
	return err
}

// Kill ends it at once; what it knew is gone.
func (r *Redis) Kill() {
	r.life.Lock()
	defer r.life.Unlock()
	if r.child != nil {
		r.child.kill()
		<-r.child.alive.Done()
		r.child = nil
	}
}

// Pause makes it hang: connections are taken and nothing is answered. Resume ends that.
func (r *Redis) Pause() { r.signal(syscall.SIGSTOP) }

// Resume lets a paused Redis go on.
func (r *Redis) Resume() { r.signal(syscall.SIGCONT) }

func (r *Redis) signal(sig syscall.Signal) {
	r.life.Lock()
	defer r.life.Unlock()
	if r.child != nil {
		r.child.signal(sig)
	}
}
