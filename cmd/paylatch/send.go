package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/channel/registry"
	"github.com/paylatch/paylatch/internal/tenant"
)

type sendCommand struct {
	engineFlags
	URL           string `help:"Base URL of the API." env:"PAYLATCH_URL" default:"" placeholder:"http://127.0.0.1:8080"`
	Channel       string `help:"The channel, such as standard." required:""`
	Account       string `help:"The account's name in the callback URL." required:""`
	OutTradeNo    string `help:"The order that is reported as paid." required:""`
	Amount        int64  `help:"Minor units of the currency." required:""`
	Currency      string `help:"ISO 4217 code." default:"CNY"`
	TransactionID string `help:"The channel's number of the payment; made from the order's number without, so that sending again is a duplicate."`
	Times         int    `help:"How often to send the same body (at most 100000)." default:"1"`
	Parallel      int    `help:"How many at once (at most 1000)." default:"1"`
}

func (c *sendCommand) Run(ctx context.Context) error {
	if c.Times < 1 || c.Times > 100_000 || c.Parallel < 1 || c.Parallel > 1000 {
		return errors.New("--times is 1 to 100000 and --parallel 1 to 1000")
	}
	dev, err := c.dev()
	if err != nil {
		return err
	}
	base := firstOf(c.URL, dev.HTTP)
	if base == "" {
		return errors.New("no API: set PAYLATCH_URL, or --data to use a running paylatch dev")
	}
	config, err := c.config(ctx)
	if err != nil {
		return err
	}
	sender, ok := registry.All()[c.Channel].(channel.Sender)
	if !ok {
		return fmt.Errorf("paylatch cannot sign as channel %q: its key is the channel's alone", c.Channel)
	}
	acks, err := deliver(ctx, sender, config, base, c.Account, channel.Sample{
		TransactionID: firstOf(c.TransactionID, "tx-"+c.OutTradeNo),
		OutTradeNo:    c.OutTradeNo, Amount: c.Amount, Currency: c.Currency, OccurredAt: time.Now(),
	}, c.Times, c.Parallel)
	if err != nil {
		return err
	}
	refused := 0
	for i, a := range acks {
		if i < 20 {
			fmt.Println(a)
		}
		if a.status >= 300 {
			refused++
		}
	}
	fmt.Printf("%d sent, %d accepted, %d refused\n", len(acks), len(acks)-refused, refused)
	if refused > 0 {
		return errReported
	}
	return nil
}

func (c *sendCommand) config(ctx context.Context) ([]byte, error) {
	db, box, err := c.openWithKey()
	if err != nil {
		return nil, err
	}
	defer db.Close()
	return tenant.NewAccounts(db, registry.All(), box).Config(ctx, c.Channel, c.Account)
}

// ack is how a callback was answered.
type ack struct {
	status int
	body   string
	took   time.Duration
}

func (a ack) String() string {
	return fmt.Sprintf("%d %s  (%s)", a.status, a.body, a.took.Round(100*time.Microsecond))
}

// deliver sends one body a number of times, as a channel that repeats itself: each time signed anew.
func deliver(ctx context.Context, sender channel.Sender, config []byte, base, account string, s channel.Sample, times, parallel int) ([]ack, error) {
	body, err := sender.Compose(s)
	if err != nil {
		return nil, err
	}
	url := strings.TrimSuffix(base, "/") + "/callbacks/" + sender.Name() + "/" + account
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: parallel}}
	defer client.CloseIdleConnections()
	acks := make([]ack, times)
	var sent atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i := range acks {
		group.Go(func() (err error) {
			acks[i], err = deliverOnce(ctx, client, sender, config, url, body)
			if n := sent.Add(1); n%1000 == 0 {
				fmt.Fprintf(os.Stderr, "%d of %d sent\n", n, times)
			}
			return err
		})
	}
	return acks, group.Wait()
}

func deliverOnce(ctx context.Context, client *http.Client, sender channel.Sender, config []byte, url string, body []byte) (ack, error) {
	header, err := sender.Sign(config, body, time.Now())
	if err != nil {
		return ack{}, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return ack{}, err
	}
	request.Header = header
	begin := time.Now()
	response, err := client.Do(request)
	if err != nil {
		return ack{}, fmt.Errorf("send a callback: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<10))
	if err != nil {
		return ack{}, fmt.Errorf("read the answer to a callback: %w", err)
	}
	return ack{response.StatusCode, strings.TrimSpace(string(text)), time.Since(begin)}, nil
}
