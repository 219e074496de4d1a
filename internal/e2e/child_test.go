package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	sdk "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"go.uber.org/zap"

	"github.com/paylatch/paylatch/activities"
	"github.com/paylatch/paylatch/api"
	"github.com/paylatch/paylatch/internal/channel/registry"
	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/devstack"
	"github.com/paylatch/paylatch/internal/engine"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/refund"
	"github.com/paylatch/paylatch/internal/sealed"
	"github.com/paylatch/paylatch/internal/share"
	"github.com/paylatch/paylatch/internal/tenant"
	"github.com/paylatch/paylatch/internal/testhouse"
	"github.com/paylatch/paylatch/internal/transfer"
	"github.com/paylatch/paylatch/worker"
	"github.com/paylatch/paylatch/workflows"
	"github.com/paylatch/paylatch/workflows/start"
)

// Processes that die at a chosen point are this test binary, started again in a role: the product itself knows no such
// point.
const (
	childRole     = "PAYLATCH_E2E_CHILD"
	childSettings = "PAYLATCH_E2E_SETTINGS"

	workerThatDies = "worker-dies-after-commit"
	apiThatDies    = "api-dies-before-signal"
)

type settings struct {
	EngineURL, APIURL, Temporal, MasterKey string
	// Address is where the child writes the URL it serves.
	Address string
}

// startChild runs this binary in a role; ended gives the child's end.
func startChild(t *testing.T, h *testhouse.House, role, addressFile string) (ended <-chan error) {
	t.Helper()
	ended, _ = spawn(t, h, role, addressFile)
	return ended
}

// spawn is startChild with a way to kill the child from outside.
func spawn(t *testing.T, h *testhouse.House, role, addressFile string) (ended <-chan error, kill func()) {
	t.Helper()
	text, err := json.Marshal(settings{h.EngineURL, h.APIURL, devstack.TestTemporal().Address(), h.MasterKey, addressFile})
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childRole+"="+role, childSettings+"="+string(text))
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	done := make(chan error, 1)
	go func() { done <- cmd.Wait(); close(done) }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may be dead already, which is what most stories want
		<-done
	})
	return done, func() { _ = cmd.Process.Kill() }
}

func requireKilled(t *testing.T, ended <-chan error) {
	t.Helper()
	select {
	case err := <-ended:
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		require.Equal(t, syscall.SIGKILL, exit.Sys().(syscall.WaitStatus).Signal())
	case <-time.After(90 * time.Second): // a task that went to a worker which had just stopped comes again after its time
		t.Fatal("the process did not come to the point where it dies")
	}
}

func die() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }

func runChild(role string) int {
	if err := child(role); err != nil {
		fmt.Fprintln(os.Stderr, role+":", err)
		return 1
	}
	return 0
}

func child(role string) error {
	var s settings
	if err := json.Unmarshal([]byte(os.Getenv(childSettings)), &s); err != nil {
		return err
	}
	db, err := database.Open(s.EngineURL, 4)
	if err != nil {
		return err
	}
	role, step, _ := strings.Cut(role, ":")
	switch role {
	case workerThatDies:
		return workAndDie(s, db, step)
	case apiThatDies:
		box, err := sealed.New(s.MasterKey)
		if err != nil {
			return err
		}
		apiDB, err := database.Open(s.APIURL, 4)
		if err != nil {
			return err
		}
		accounts := tenant.NewAccounts(db, registry.All(), box)
		books := payment.NewBooks(db, zap.NewNop())
		srv := httptest.NewServer(api.Handler(api.Config{
			Orders: payment.NewOrders(apiDB, accounts.Asks), Books: books, Accounts: accounts, API: apiDB, Engine: db, Log: zap.NewNop(),
			Entry:       payment.NewEntry(db, accounts, deadly{}, zap.NewNop(), payment.DefaultPlan, nil),
			WorkflowURL: func(id string) string { return id },
		}))
		defer srv.Close()
		if err := os.WriteFile(s.Address+".new", []byte(srv.URL), 0o600); err != nil {
			return err
		}
		if err := os.Rename(s.Address+".new", s.Address); err != nil {
			return err
		}
		select {}
	default:
		return fmt.Errorf("no role %q", role)
	}
}

// workAndDie serves the flows and the channels' queues until the chosen step has had its effect.
func workAndDie(s settings, db *pgxpool.Pool, step string) error {
	log := zap.NewNop()
	options, err := engine.Options(s.Temporal, log)
	if err != nil {
		return err
	}
	options.Identity = "paylatch"
	c, err := engine.Open(options)
	if err != nil {
		return err
	}
	box, err := sealed.New(s.MasterKey)
	if err != nil {
		return err
	}
	accounts := tenant.NewAccounts(db, registry.All(), box)
	driver := start.New(c)
	matters := []payment.Matter{share.NewMatter(nil), refund.NewMatter(accounts, nil)}
	entry := payment.NewEntry(db, accounts, driver, log, payment.DefaultPlan, nil, matters...)
	sharing := share.NewService(db, accounts, entry, driver, log, nil)
	payments := &activities.Payments{Books: payment.NewBooks(db, log, matters...)}
	transfers := &activities.Transfers{Service: transfer.NewService(db, box, nil, log, nil), Log: log}
	shares := &activities.Shares{Service: sharing}
	refunds := &activities.Refunds{Log: log, Service: refund.New(refund.Config{Pool: db, Accounts: accounts, Entry: entry, Driver: driver, Shares: sharing, Log: log})}

	for _, channel := range []string{"wechatpay", "alipay", "stripe"} {
		calls := worker.New(c, workflows.ChannelQueue(channel), 4, nil)
		deadlyStep(calls, workflows.ShareCallActivity, step, shares.Call)
		deadlyStep(calls, workflows.RefundAdvanceActivity, step, refunds.Advance)
		deadlyStep(calls, workflows.AskAboutActivity, step, refunds.AskAbout)
		if err := calls.Start(); err != nil {
			return err
		}
		defer calls.Stop()
	}
	participants := worker.New(c, workflows.ParticipantsQueue, 4, nil)
	deadlyStep(participants, workflows.ParticipantActivity, step, func(ctx context.Context, call workflows.ParticipantCall) (struct{}, error) {
		return struct{}{}, transfers.Call(ctx, call)
	})
	if err := participants.Start(); err != nil {
		return err
	}
	defer participants.Stop()
	w := worker.New(c, workflows.PaymentsQueue, 4, nil)
	for name, flow := range worker.Flows() {
		w.RegisterWorkflowWithOptions(flow, workflow.RegisterOptions{Name: name})
	}
	deadlyStep(w, workflows.ApplyEventActivity, step, payments.ApplyEvent)
	deadlyStep(w, workflows.TransferTryActivity, step, transfers.Try)
	deadlyStep(w, workflows.TransferDecideActivity, step, transfers.Decide)
	deadlyStep(w, workflows.TransferSettleActivity, step, transfers.Settle)
	deadlyStep(w, workflows.TransferEndActivity, step, transfers.End)
	deadlyStep(w, workflows.ShareLookActivity, step, shares.Look)
	deadlyStep(w, workflows.RefundLookActivity, step, refunds.Look)
	deadlyStep(w, workflows.RefundUnknownActivity, step, refunds.Unknown)
	return w.Run(nil)
}

// second names a step that is run twice, the second time.
const second = ", second time"

// deadlyStep registers a step that kills its process after its commit, if it is the chosen one (without a choice: always).
func deadlyStep[In, Out any](w sdk.Registry, name, chosen string, do func(context.Context, In) (Out, error)) {
	var done atomic.Int64
	w.RegisterActivityWithOptions(func(ctx context.Context, in In) (Out, error) {
		out, err := do(ctx, in)
		if err == nil && (chosen == "" || chosen == name || done.Add(1) == 2 && chosen == name+second) {
			die() // committed, and nobody is told
		}
		return out, err
	}, activity.RegisterOptions{Name: name})
}

// deadly is a driver that dies between the stored row and the signal.
type deadly struct{}

func (deadly) Deliver(context.Context, payment.Delivery) error {
	die()
	select {}
}
