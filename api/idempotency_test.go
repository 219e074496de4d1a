package api_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// replayed requires the answer of an earlier transfer.
func (r reply) replayed(t *testing.T, first reply) {
	t.Helper()
	require.Equal(t, first.StatusCode, r.StatusCode)
	require.Equal(t, first.Text, r.Text)
	require.Empty(t, first.Header.Get("Idempotency-Replayed"))
	require.Equal(t, "true", r.Header.Get("Idempotency-Replayed"))
}

func TestAMalformedKeyIsRefused(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.account(t, "a", 500)
	f.account(t, "b", 0)
	const plain, x = "Idempotency-Key", "X-Idempotency-Key"
	for name, headers := range map[string][]string{
		"two":                  {plain, "k", plain, "k"},
		"two of the other":     {x, "k", x, "k"},
		"both":                 {plain, "k", x, "k"},
		"empty":                {plain, ""},
		"empty, the other":     {x, ""},
		"empty in quotes":      {plain, `""`},
		"one quote":            {plain, `"`},
		"a quote at the start": {plain, `"k`},
		"a quote within":       {plain, `"k"k"`},
		"a parameter":          {plain, `"k";p=1`},
		"an odd escape":        {plain, `"k\k"`},
		"an escape at the end": {plain, `"k\"`},
		"256":                  {plain, strings.Repeat("k", 256)},
		"256 in quotes":        {plain, `"` + strings.Repeat("k", 256) + `"`},
		"a tab":                {plain, "k\tk"},
		"a space":              {plain, "k k"},
		"not ASCII":            {plain, "kéy"},
		"bytes":                {plain, "k\xff"},
	} {
		t.Run(name, func(t *testing.T) {
			f.transfer(t, "", move("a", "b", 1), headers...).problem(t, 400, "idempotency_key_malformed")
			f.transfer(t, "", and(move("a", "b", 1), `"reference":"r"`), headers...).problem(t, 400, "idempotency_key_malformed")
		})
	}
	for _, body := range []string{move("a", "b", 1), and(move("a", "b", 1), `"reference":""`), and(move("a", "b", 1), `"reference":null`)} {
		f.transfer(t, "", body).problem(t, 400, "idempotency_key_required")
	}
	for _, reference := range []string{strings.Repeat("r", 129), `a\u0000`, `a\n`, `a\u0085`} {
		f.transfer(t, "k", and(move("a", "b", 1), `"reference":"`+reference+`"`)).problem(t, 400, "reference_invalid")
	}
	for _, control := range []string{"\x00", "\x01", "\x7f", "\v"} {
		require.Equal(t, 400, f.raw(t, "POST /v1/transfers HTTP/1.1\r\nHost: h\r\nConnection: close\r\nAuthorization: Bearer "+f.APIKey+
			"\r\nIdempotency-Key: k"+control+"k\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"))
	}
	require.Zero(t, f.transfers(t))
	for _, key := range []string{strings.Repeat("k", 255), `"` + strings.Repeat("q", 255) + `"`, "!", "~", `k"k`} {
		f.transfer(t, key, move("a", "b", 1)).is(t, 201)
	}
	require.Equal(t, "true", f.transfer(t, `"k\"k"`, move("a", "b", 1)).is(t, 201).Header.Get("Idempotency-Replayed"), "the same key, in quotes")
	f.transfer(t, "", and(move("a", "b", 1), `"reference":"`+strings.Repeat("书", 128)+`"`)).is(t, 201)
	f.RequireInvariants(t)
	f.requireNoError(t)
}

// raw sends bytes that no client of ours would send, and gives the status.
func (f *face) raw(t *testing.T, request string) (status int) {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(f.URL, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, request)
	require.NoError(t, err)
	_, err = fmt.Fscanf(conn, "HTTP/1.1 %d", &status)
	require.NoError(t, err)
	return status
}

func TestANameIsOfOneRequest(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.account(t, "a", 500)
	f.account(t, "b", 0)
	f.account(t, "c", 0)
	before := f.Journals(t)
	referred := func(body, reference string) string { return and(body, `"reference":"`+reference+`"`) }

	f.transfer(t, "k", move("a", "b", 1)).is(t, 201)
	for name, body := range map[string]string{
		"amount":    move("a", "b", 2),
		"to":        move("a", "c", 1),
		"direction": move("b", "a", 1),
		"mode":      and(move("a", "b", 1), `"mode":"tcc"`),
		"reference": referred(move("a", "b", 1), "r"),
		"more legs": and(move("a", "b", 1), `"participants":[{"type":"stock","sku":"x","quantity":1}]`),
	} {
		t.Run(name, func(t *testing.T) {
			f.transfer(t, "k", body).problem(t, 422, "idempotency_key_reused")
		})
	}
	require.Equal(t, before+1, f.Journals(t))

	first := f.transfer(t, "k-1", referred(move("a", "b", 5), "r-1")).is(t, 201)
	require.Equal(t, "r-1", first.fields(t)["reference"])
	f.transfer(t, "k-2", referred(move("a", "b", 5), "r-1")).replayed(t, first)
	f.transfer(t, "", referred(move("a", "b", 5), "r-1")).replayed(t, first)
	f.transfer(t, "k-1", referred(move("a", "b", 5), "r-1")).replayed(t, first)
	f.transfer(t, "k-1", move("a", "b", 5)).problem(t, 422, "idempotency_key_reused") // the reference is a part of it
	f.transfer(t, "k-3", referred(move("a", "b", 6), "r-1")).problem(t, 422, "reference_reused")
	f.transfer(t, "", referred(move("a", "b", 6), "r-1")).problem(t, 422, "reference_reused")
	require.Equal(t, before+2, f.Journals(t))
	require.Equal(t, 2, f.transfers(t))
	require.Equal(t, "494", f.balance(t, "a"))
	f.RequireInvariants(t)
}

func TestManyAtOnceUnderOneNameAreOneTransfer(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"direct", "tcc"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			f := newFace(t)
			f.account(t, "a", 500)
			f.account(t, "b", 0)
			before := f.Journals(t)
			body := and(move("a", "b", 200), `"mode":"`+mode+`"`)
			replies := f.atOnce(t, 20, func(i int) *http.Request {
				name := []string{"Idempotency-Key", "X-Idempotency-Key"}[i%2]
				return f.transferRequest(t, body, name, []string{"k", `"k"`}[i/2%2])
			})
			made := 0
			for _, r := range replies {
				require.Equal(t, replies[0].is(t, 201).fields(t)["id"], r.is(t, 201).fields(t)["id"])
				if r.Header.Get("Idempotency-Replayed") == "" {
					made++
				}
			}
			require.Equal(t, 1, made, "all others are replays")

			byReference := and(body, `"reference":"r"`)
			replies = f.atOnce(t, 20, func(i int) *http.Request {
				return f.transferRequest(t, byReference, "Idempotency-Key", fmt.Sprint("k-", i))
			})
			for _, r := range replies {
				require.Equal(t, replies[0].fields(t)["id"], r.is(t, 201).fields(t)["id"])
			}
			require.Equal(t, before+2, f.Journals(t))
			require.Equal(t, 2, f.transfers(t))
			require.Equal(t, "100", f.balance(t, "a"))
			f.RequireInvariants(t)
			f.requireNoError(t)
		})
	}
}

// connect opens all connections of the pools, one after another: many at once may take longer on a busy machine than one
// attempt may.
func (f *face) connect(t *testing.T) {
	t.Helper()
	for _, pool := range []*pgxpool.Pool{f.API, f.Engine} {
		for range pool.Config().MaxConns {
			conn, err := pool.Acquire(t.Context())
			require.NoError(t, err)
			defer conn.Release()
		}
	}
}

// atOnce sends requests at the same time.
func (f *face) atOnce(t *testing.T, n int, request func(i int) *http.Request) []reply {
	t.Helper()
	requests, replies := make([]*http.Request, n), make([]reply, n)
	for i := range requests {
		requests[i] = request(i)
	}
	f.connect(t)
	var group errgroup.Group
	for i, r := range requests {
		group.Go(func() error {
			response, err := http.DefaultClient.Do(r)
			if err != nil {
				return err
			}
			defer response.Body.Close()
			text, err := io.ReadAll(response.Body)
			replies[i] = reply{response, string(text)}
			return err
		})
	}
	require.NoError(t, group.Wait())
	for i, r := range replies {
		requireDescribed(t, requests[i].Method, requests[i].URL.Path, r)
	}
	return replies
}

func TestTwoRequestsAtOnceUnderOneKeyAreOneTransferAndARefusal(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.account(t, "a", 500)
	f.account(t, "b", 0)
	before := f.Journals(t)
	replies := f.atOnce(t, 20, func(i int) *http.Request {
		return f.transferRequest(t, move("a", "b", int64(1+i%2)), "Idempotency-Key", "k")
	})
	moved := f.Count(t, "SELECT -(legs->0->>'amount')::bigint FROM transfers")
	for i, r := range replies {
		if 1+i%2 == moved {
			r.is(t, 201)
		} else {
			r.problem(t, 422, "idempotency_key_reused")
		}
	}
	require.Equal(t, before+1, f.Journals(t))
	require.Equal(t, fmt.Sprint(moved), f.balance(t, "b"))
	f.RequireInvariants(t)
}
