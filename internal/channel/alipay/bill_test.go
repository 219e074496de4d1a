package alipay_test

import (
	"archive/zip"
	"bytes"
	"encoding/csv"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/encoding/simplifiedchinese"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/channel/alipay"
	sim "github.com/paylatch/paylatch/internal/channel/simulator/alipay"
)

const gatewayBill = "alipay.data.dataservice.bill.downloadurl.query"

var firstOfMarch = channel.Date{Year: 2026, Month: time.March, Day: 1}

func inShanghai(text string) func() time.Time {
	at, err := time.ParseInLocation(timeLayout, text, shanghai)
	if err != nil {
		panic(err)
	}
	return func() time.Time { return at }
}

// A bill without end is an error, and never a part that is taken for the whole.
func TestABillIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *sim.Simulator) { s.Clock(inShanghai("2026-03-01 12:00:00")) })
	w.paid(t, "O12", 990)
	w.Clock(inShanghai("2026-03-02 12:00:00"))
	read := func() ([]byte, error) {
		stream, err := w.Bill(t.Context(), firstOfMarch)
		require.NoError(t, err)
		defer stream.Close()
		return io.ReadAll(stream)
	}
	whole, err := read()
	require.NoError(t, err)
	alipay.SetMaxBill(w.account, int64(len(whole)))
	again, err := read()
	require.NoError(t, err)
	require.Len(t, again, len(whole))
	alipay.SetMaxBill(w.account, int64(len(whole))-1)
	_, err = read()
	require.ErrorContains(t, err, "more than")
}

func TestADaysBill(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *sim.Simulator) { s.Clock(inShanghai("2026-03-01 23:59:50")) })
	tradeNo := w.paid(t, "O12", 990)
	_, err := w.Refund(t.Context(), channel.Refund{OutRefundNo: "R12", TransactionID: tradeNo, Amount: 50, Total: 990, Currency: "CNY"})
	require.NoError(t, err)
	w.Clock(inShanghai("2026-03-02 09:30:00"))
	_, err = w.Refund(t.Context(), channel.Refund{OutRefundNo: "R13", TransactionID: tradeNo, Amount: 40, Total: 990, Currency: "CNY"})
	require.NoError(t, err)

	stream, err := w.Bill(t.Context(), firstOfMarch)
	require.NoError(t, err)
	file, err := io.ReadAll(stream)
	require.NoError(t, err)
	require.NoError(t, stream.Close())

	archive, err := zip.NewReader(bytes.NewReader(file), int64(len(file)))
	require.NoError(t, err)
	require.Len(t, archive.File, 2)
	require.Equal(t, "20880000000000010156_20260301_业务明细.csv", fromGBK(t, archive.File[0].Name))
	require.Equal(t, "20880000000000010156_20260301_业务明细(汇总).csv", fromGBK(t, archive.File[1].Name))
	entry, err := archive.File[0].Open()
	require.NoError(t, err)
	content, err := io.ReadAll(entry)
	require.NoError(t, err)
	lines := strings.Split(fromGBK(t, string(content)), "\r\n")
	require.Equal(t, "#支付宝业务明细查询", lines[0])
	require.Equal(t, "#账号：[20880000000000010156]", lines[1])
	require.Equal(t, "#起始日期：[2026年03月01日 00:00:00]   终止日期：[2026年03月02日 00:00:00]", lines[2])
	var table []string
	for _, line := range lines {
		if line != "" && line[0] != '#' {
			table = append(table, line)
		}
	}
	rows, err := csv.NewReader(strings.NewReader(strings.Join(table, "\n"))).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 3, "the refund of the second of March is in another bill")
	for _, row := range rows {
		require.Len(t, row, 25)
	}
	require.Equal(t, "支付宝交易号", rows[0][0])
	require.Equal(t, []string{tradeNo + "\t", "O12\t", "交易\t"}, rows[1][:3])
	require.Equal(t, []string{"9.90", "9.90"}, rows[1][11:13])
	require.Equal(t, []string{tradeNo + "\t", "O12\t", "退款\t"}, rows[2][:3])
	require.Equal(t, []string{"-0.50", "-0.50"}, rows[2][11:13])
	require.Equal(t, "R12\t", rows[2][21])
	require.Contains(t, lines, "#交易合计：1笔，商家实收共9.90元，商家优惠共0.00元")
	require.Contains(t, lines, "#退款合计：1笔，商家实收退款共-0.50元，商家优惠退款共0.00元")
}

func fromGBK(t *testing.T, text string) string {
	t.Helper()
	decoded, err := simplifiedchinese.GBK.NewDecoder().String(text)
	require.NoError(t, err)
	return decoded
}

func TestWhenThereIsNoBillAndWhenThereIsNoneYet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for now, want := range map[string]error{
		"2026-03-01 12:00:00": channel.ErrBillNotReady, // the day is not over, and Alipay is not asked
		"2026-03-01 23:59:59": channel.ErrBillNotReady,
		"2026-03-02 00:00:00": channel.ErrBillNotReady, // Alipay has none, which may change until noon
		"2026-03-02 11:59:59": channel.ErrBillNotReady,
		"2026-03-02 12:00:00": channel.ErrNoBill,
		"2027-03-02 12:00:00": channel.ErrNoBill,
	} {
		alipay.SetClock(w.account, inShanghai(now))
		_, err := w.Bill(t.Context(), firstOfMarch)
		require.ErrorIs(t, err, want, now)
	}
	require.Equal(t, 4, w.counted("bill"))
}

func TestWhatAlipaySaysOfABill(t *testing.T) {
	t.Parallel()
	ask := func(answer string) error {
		account := scripted(t, map[string]string{gatewayBill: answer})
		_, err := account.Bill(t.Context(), firstOfMarch)
		return err
	}
	for _, sub := range []string{"BILL_NOT_EXIST", "isp.bill_not_exist", "NO_BILL_DATA", "BILL_DATE_BEFORE_REGISTRATION"} {
		require.ErrorIs(t, ask(failing("40004", sub)), channel.ErrNoBill)
	}
	for _, sub := range []string{"SYSTEM_RATE_LIMIT", "USER_RATE_LIMIT"} {
		require.ErrorIs(t, ask(failing("40004", sub)), channel.ErrBillNotReady)
	}
	requireRejection(t, ask(failing("40004", "invalid_arguments")), "invalid_arguments")
	requireRejection(t, ask(failing("40006", "isv.insufficient-isv-permissions")), "isv.insufficient-isv-permissions")
	requireUnknown(t, ask(failing("20000", "isp.unknow-error")))
	requireUnknown(t, ask(failing("40004", "SYSTEM_ERROR")))
	for _, address := range []string{
		"", "not an address", "/downloadBillFile.resource", "ftp://127.0.0.1/bill", "file:///etc/passwd", "http://user:word@127.0.0.1/bill",
		"https://dwbillcenter.alipay.com/bill", // an account at this machine's own simulator gets no file from outside
	} {
		requireUnknown(t, ask(`{"code":"10000","msg":"Success","bill_download_url":"`+address+`"}`))
	}
}

// downloading is an account whose bill lies at a server that answers so.
func downloading(t *testing.T, handler http.HandlerFunc) channel.Acquirer {
	t.Helper()
	address := strings.TrimSuffix(serve(t, handler), "/gateway.do")
	return scripted(t, map[string]string{gatewayBill: `{"code":"10000","msg":"Success","bill_download_url":"` + address + `/bill?` + url.Values{"token": {"t"}}.Encode() + `"}`})
}

func TestWhatIsNotAZipIsNotABill(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{"a page": "<html>the address has lapsed</html>", "nothing": "", "a letter": "P", "a table": "#支付宝业务明细查询"} {
		account := downloading(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
		_, err := account.Bill(t.Context(), firstOfMarch)
		t.Log(name, err)
		requireUnknown(t, err)
	}
	for _, status := range []int{http.StatusFound, http.StatusForbidden, http.StatusNotFound, http.StatusInternalServerError} {
		account := downloading(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "PK\x03\x04")
		})
		_, err := account.Bill(t.Context(), firstOfMarch)
		requireUnknown(t, err)
		require.NotContains(t, err.Error(), "token")
	}
}

func TestABillComesAsItIsSentAndACutOneIsNoticed(t *testing.T) {
	t.Parallel()
	rest := make(chan struct{})
	account := downloading(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "PK\x03\x04 the first part")
		w.(http.Flusher).Flush()
		<-rest
		panic(http.ErrAbortHandler)
	})
	stream, err := account.Bill(t.Context(), firstOfMarch) // before the server sent the rest
	require.NoError(t, err)
	close(rest)
	got, err := io.ReadAll(stream)
	require.Error(t, err)
	require.Equal(t, "PK\x03\x04 the first part", string(got))
	require.NoError(t, stream.Close())
}
