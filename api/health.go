package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"go.uber.org/zap"

	"github.com/paylatch/paylatch/internal/database"
)

// whyNot tells what an operator can change; anything else may name hosts and users, and goes to the log.
func (s *server) whyNot(part string, err error) string {
	if errors.Is(err, database.ErrNotDurable) || errors.Is(err, database.ErrOldSchema) || errors.Is(err, database.ErrNotIsolated) {
		return err.Error()
	}
	s.log.Warn("not ready", zap.String("part", part), zap.Error(err))
	return "does not answer"
}

const probeTimeout = 2 * time.Second

// health says that the process runs.
func (s *server) health(c *gin.Context) {
	c.JSON(http.StatusOK, gin.H{"status": "ok"})
}

// ready says whether everything is there: a payment that is made now will be credited now.
func (s *server) ready(c *gin.Context) {
	s.probe(c, map[string]func(context.Context) error{"database": s.DatabaseReady, "temporal": s.EngineReady})
}

// readyForCallbacks is for the load balancer in front of the callback endpoint: while Temporal is away callbacks are
// stored and acknowledged all the same, so an instance without it must not be taken out.
func (s *server) readyForCallbacks(c *gin.Context) {
	s.probe(c, map[string]func(context.Context) error{"database": s.DatabaseReady})
}

// checked makes an error of a panic: in a goroutine of its own it would end the process.
func checked(ctx context.Context, check func(context.Context) error) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("the check panicked: %v", fault)
		}
	}()
	return check(ctx)
}

func (s *server) probe(c *gin.Context, parts map[string]func(context.Context) error) {
	ctx, cancel := context.WithTimeout(c.Request.Context(), probeTimeout)
	defer cancel()
	type answer struct {
		name string
		err  error
	}
	answers := make(chan answer, len(parts))
	for name, check := range parts {
		go func() { answers <- answer{name, checked(ctx, check)} }()
	}
	status, body := http.StatusOK, gin.H{"status": "ok"}
	for range parts {
		a := <-answers
		body[a.name] = "ok"
		if a.err != nil {
			status, body["status"] = http.StatusServiceUnavailable, "unavailable"
			body[a.name] = s.whyNot(a.name, a.err)
		}
	}
	c.JSON(status, body)
}
