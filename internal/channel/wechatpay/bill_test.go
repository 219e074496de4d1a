package wechatpay_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
	simulated "github.com/paylatch/paylatch/internal/channel/simulator/wechatpay"
)

var billDay = channel.Date{Year: 2026, Month: time.November, Day: 29}

func TestABillIsTheDaysPaymentsAndRefunds(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	noon := time.Date(2026, 11, 29, 4, 0, 0, 0, time.UTC)
	now := noon
	h.sim.SetClock(func() time.Time { return now })
	day := channel.Date{Year: 2026, Month: time.November, Day: 29}
	_, err := h.Bill(t.Context(), day)
	require.ErrorIs(t, err, channel.ErrNoBill)

	tea := h.order("order-1", 1234)
	tea.Description, tea.ExpiresAt = "tea, green", noon.Add(time.Hour)
	_, err = h.Prepay(t.Context(), tea)
	require.NoError(t, err)
	require.NoError(t, h.sim.PayWithCoupon("order-1", 34))
	transaction := h.sim.Orders()[0].TransactionID
	now = noon.Add(time.Minute)
	_, err = h.Refund(t.Context(), h.refundOf(transaction, "refund-1", 100, 1234))
	require.NoError(t, err)

	h.sim.HoldBills(true)
	_, err = h.Bill(t.Context(), day)
	require.ErrorIs(t, err, channel.ErrBillNotReady)
	h.sim.HoldBills(false)
	file, err := h.Bill(t.Context(), day)
	require.NoError(t, err)
	text, err := io.ReadAll(file)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	lines := strings.Split(strings.TrimPrefix(string(text), "\ufeff"), "\r\n")
	require.Len(t, lines, 6)
	require.True(t, strings.HasPrefix(string(text), "\ufeff交易时间,公众账号ID,"))
	require.Len(t, strings.Split(lines[0], ","), 27)
	require.Equal(t, "`2026-11-29 12:00:00,`wx0000000000000001,`1900000001,`0,`,`"+transaction+",`order-1,`oSIMULATEDPAYER0000000000000,`NATIVE,`SUCCESS,`OTHERS,`CNY,"+
		"`12.00,`0.34,`0,`0,`0.00,`0.00,`,`,`tea, green,`,`0.07200,`0.60%,`12.34,`0.00,`", lines[1])
	require.Contains(t, lines[2], "`REFUND,`OTHERS,`CNY,`0.00,`0.00,`5030000")
	require.Contains(t, lines[2], ",`refund-1,`1.00,`0.00,`ORIGINAL,`SUCCESS,`tea, green,`,`-0.00600,`0.60%,`0.00,`1.00,`")
	require.Equal(t, "`2,`12.00,`1.00,`0.00,`0.06600,`12.34,`1.00", lines[4])

	_, err = h.Bill(t.Context(), channel.Date{Year: 2026, Month: time.November, Day: 28})
	require.ErrorIs(t, err, channel.ErrNoBill)
	_, err = h.Bill(t.Context(), channel.Date{Year: 2026, Month: time.June, Day: 1})
	requireRejected(t, err, "INVALID_REQUEST")
	require.False(t, channel.Definite(channel.ErrBillNotReady))
}

// billStub answers with a file and the hash of what the test says.
func billStub(t *testing.T, file []byte, hashed string, link func(api string) string) channel.Acquirer {
	t.Helper()
	sum := sha1.Sum([]byte(hashed))
	sim := simulated.New()
	t.Cleanup(sim.Core().Close)
	var api *httptest.Server
	api = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/file" {
			_, _ = w.Write(file)
			return
		}
		body := fmt.Sprintf(`{"hash_type":"SHA1","hash_value":%q,"download_url":%q}`, hex.EncodeToString(sum[:]), link(api.URL))
		for name, values := range sim.Sign("public", []byte(body), time.Now()) {
			w.Header()[name] = values
		}
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(api.Close)
	return openSimulated(t, sim, api.URL, nil).(channel.Acquirer)
}

func fileLink(api string) string { return api + "/file?token=x" }

func packed(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := io.WriteString(z, text)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.Bytes()
}

func TestABillIsHandedOnOnlyWhenItsHashHolds(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("`1,`2\r\n", 100_000)
	for name, file := range map[string][]byte{"compressed": packed(t, text), "plain": []byte(text)} {
		reader, err := billStub(t, file, text, fileLink).Bill(t.Context(), billDay)
		require.NoError(t, err, name)
		got, err := io.ReadAll(reader)
		require.NoError(t, err)
		require.NoError(t, reader.Close())
		require.True(t, text == string(got), name)
	}
	for name, file := range map[string][]byte{
		"another file":         packed(t, text+"`3\r\n"),
		"cut":                  packed(t, text)[:100],
		"empty":                {},
		"hash of the archive?": packed(t, string(packed(t, text))),
	} {
		_, err := billStub(t, file, text, fileLink).Bill(t.Context(), billDay)
		require.Error(t, err, name)
		require.False(t, channel.Definite(err), name)
	}
}

func TestABillIsFetchedFromWeChatPayAlone(t *testing.T) {
	t.Parallel()
	var hits atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	t.Cleanup(elsewhere.Close)
	for _, link := range []string{
		elsewhere.URL + "/file", "http://api.mch.weixin.qq.com/file", "https://api.mch.weixin.qq.com.example/file", "https://u:p@api.mch.weixin.qq.com/file", "file:///etc/passwd", "", "://",
	} {
		_, err := billStub(t, nil, "", func(string) string { return link }).Bill(t.Context(), billDay)
		require.ErrorContains(t, err, "elsewhere", link)
	}
	require.Zero(t, hits.Load())
}

func TestTheAPIMayStandBehindAPath(t *testing.T) {
	t.Parallel()
	sim := simulated.New()
	t.Cleanup(sim.Core().Close)
	api := httptest.NewServer(http.StripPrefix("/simulators/wechatpay", sim.Handler()))
	t.Cleanup(api.Close)
	a := openSimulated(t, sim, api.URL+"/simulators/wechatpay/", nil).(channel.Acquirer)
	_, err := a.Prepay(t.Context(), someOrder)
	require.NoError(t, err)
	require.NoError(t, sim.Pay(someOrder.OutTradeNo))
	today := time.Now().In(time.FixedZone("UTC+8", 8*60*60))
	file, err := a.Bill(t.Context(), channel.Date{Year: today.Year(), Month: today.Month(), Day: today.Day()})
	require.NoError(t, err)
	text, err := io.ReadAll(file)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	require.Contains(t, string(text), someOrder.OutTradeNo)
}
