package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/paylatch/paylatch/internal/cache"
	"github.com/paylatch/paylatch/internal/channel/standard"
	"github.com/paylatch/paylatch/internal/devstack"
	"github.com/paylatch/paylatch/internal/engine"
	"github.com/paylatch/paylatch/internal/tenant"
	"github.com/paylatch/paylatch/internal/testhouse"
)

// newGround is what a benchmark stands on, in small.
func newGround(t *testing.T, channelName string) (HouseConfig, *testhouse.Database) {
	t.Helper()
	db := testhouse.NewDatabase(t)
	_, err := tenant.Add(t.Context(), db.Engine, tenantName, "CNY")
	require.NoError(t, err)
	options, err := engine.Options(devstack.TestTemporal().Address(), zap.NewNop())
	require.NoError(t, err)
	reporter, err := NewReporter(channelName)
	require.NoError(t, err)
	log := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(io.Discard), zap.InfoLevel))
	return HouseConfig{OwnerURL: db.OwnerURL, Temporal: options, Reporter: reporter, Remembered: 1000, Log: log}, db
}

// The benchmarks of callbacks run one after another: in one engine they would take each other's flows.

func TestCallbacksOfEachChannelAreCreditedOnceHoweverOftenTheyAreSent(t *testing.T) {
	for _, name := range Channels() {
		t.Run(name, func(t *testing.T) {
			ground, db := newGround(t, name)
			report, err := Callbacks(t.Context(), CallbacksConfig{House: ground, N: 20, Callers: 4, Duplicates: 2, Display: LineDisplay(t.Output())})
			require.NoError(t, err)
			require.Equal(t, name, report.Channel)
			require.Equal(t, 2*(20+20), db.Count(t, "SELECT count(*) FROM journals WHERE kind = 'payment_credit'"), "warmed up and measured, twice")
			require.Equal(t, 2*(20+20), db.Count(t, "SELECT count(*) FROM channel_events"))
			db.RequireInvariants(t)
			report.Print(t.Output())
		})
	}
}

func TestDuplicatesOfEachChannelChangeNothing(t *testing.T) {
	for _, name := range Channels() {
		t.Run(name, func(t *testing.T) {
			ground, db := newGround(t, name)
			report, err := Duplicates(t.Context(), DuplicatesConfig{
				House: ground, Orders: 20, Callers: 4, Length: 50 * time.Millisecond, Acks: 1000, Display: LineDisplay(t.Output()),
			})
			require.NoError(t, err)
			require.Equal(t, 20, db.Count(t, "SELECT count(*) FROM journals WHERE kind = 'payment_credit'"))
			require.Equal(t, 20, db.Count(t, "SELECT count(*) FROM channel_receipts"))
			db.RequireInvariants(t)
			require.Equal(t, map[string]float64{"a duplicate, process cache": 0, "a duplicate, no cache": 1}, map[string]float64{
				"a duplicate, process cache": figureOf(t, report, "round trips to the database per duplicate, a duplicate, process cache"),
				"a duplicate, no cache":      figureOf(t, report, "round trips to the database per duplicate, a duplicate, no cache"),
			})
			report.Print(t.Output())
		})
	}
}

func figureOf(t *testing.T, r *Report, name string) float64 {
	t.Helper()
	for _, f := range r.Figures {
		if f.Name == name {
			return f.Value
		}
	}
	require.Fail(t, "no figure", name)
	return 0
}

func TestTheLiveHeapDoesNotGrowWithTheCallbacks(t *testing.T) {
	ground, _ := newGround(t, "standard")
	h, err := openHouse(t.Context(), ground)
	require.NoError(t, err)
	defer h.close()
	base, stop, err := h.serve(nobody{}, cache.NewMemory(100))
	require.NoError(t, err)
	defer stop()
	sender, err := newSender(base, 8)
	require.NoError(t, err)
	defer sender.reset()
	orders, err := h.orders(t.Context(), "heap", 1)
	require.NoError(t, err)

	// Each is another event that is DONE, reported twice: the second time it is remembered.
	const many = 2000
	send := func(begin int) {
		require.NoError(t, each(t.Context(), many, 8, func(_ context.Context, i int) error {
			body, err := json.Marshal(standard.Message{Type: "payment.failed", Timestamp: time.Now(), Data: standard.Data{
				TransactionID: fmt.Sprintf("tx-%d", begin+i), OutTradeNo: orders[0].number, Amount: 100, Currency: "CNY",
			}})
			if err != nil {
				return err
			}
			header, _, err := h.Reporter.Sign(body, time.Now())
			if err != nil {
				return err
			}
			request := requestBytes(h.path, header, body)
			for range 2 {
				if err := sender.send(request); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	send(0)
	before := liveHeap()
	send(many)
	require.Less(t, (liveHeap()-before)/many, int64(100), "bytes for each of %d callbacks", many)
}
