package alipay

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/paylatch/paylatch/internal/channel"
)

// maxBill bounds a bill as it is downloaded: compressed, a day of several million payments.
const maxBill = 256 << 20

const methodBill = "alipay.data.dataservice.bill.downloadurl.query"

// Sub codes of the bill, in the spellings of the tables and of the gateway itself.
var (
	noBill    = codes{"BILL_NOT_EXIST": true, "isp.bill_not_exist": true, "NO_BILL_DATA": true, "BILL_DATE_BEFORE_REGISTRATION": true}
	billLater = codes{"SYSTEM_RATE_LIMIT": true, "USER_RATE_LIMIT": true}
)

// billMade is how long after the end of a day its bill may still be made: usually at 9 o'clock, and sometimes later.
const billMade = 12 * time.Hour

// Bill implements [channel.Acquirer]. The file is a zip of GBK tables. Alipay gives no hash of it: the address comes signed, is
// fetched over TLS, lives for 30 seconds and is asked for anew each time.
func (a *account) Bill(ctx context.Context, date channel.Date) (io.ReadCloser, error) {
	end := time.Date(date.Year, date.Month, date.Day, 24, 0, 0, 0, shanghai)
	if a.now().Before(end) {
		return nil, channel.ErrBillNotReady
	}
	reply, err := a.call(ctx, methodBill, map[string]string{"bill_type": "trade", "bill_date": date.String()})
	if err != nil {
		return nil, err
	}
	switch {
	case noBill[reply.SubCode] && a.now().Before(end.Add(billMade)):
		return nil, channel.ErrBillNotReady // the same answer as on a day without a bill
	case noBill[reply.SubCode]:
		return nil, channel.ErrNoBill
	case billLater[reply.SubCode]:
		return nil, fmt.Errorf("%w: too many bills are asked for at once", channel.ErrBillNotReady)
	}
	if err := reply.refusal(codes{"INVAILID_ARGUMENTS": true, "invalid_arguments": true, "TYPE_NOT_SUPPORTED": true}); err != nil {
		return nil, err
	}
	var answer struct {
		URL string `json:"bill_download_url"`
	}
	if err := reply.read(&answer); err != nil {
		return nil, err
	}
	address, err := a.billAddress(answer.URL)
	if err != nil {
		return nil, err
	}
	return a.download(ctx, address)
}

// billAddress takes https where Alipay writes http: the file has no signature of its own.
func (a *account) billAddress(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https" {
		return "", errors.New("the answer holds no address of the bill")
	}
	if isLoopback(u.Hostname()) != isLoopback(a.baseURL.Hostname()) {
		return "", errors.New("the bill's address is on another side than the gateway")
	}
	if !isLoopback(u.Hostname()) {
		u.Scheme = "https"
	}
	return u.String(), nil
}

func isLoopback(host string) bool { return host == "localhost" || net.ParseIP(host).IsLoopback() }

func (a *account) download(ctx context.Context, address string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	response, err := a.caller.Stream(req)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		_ = response.Body.Close()
		return nil, fmt.Errorf("the bill's address answered with status %d", response.StatusCode)
	}
	// An address that has lapsed answers with a page, and status 200.
	file := bufio.NewReader(&bounded{from: response.Body, left: a.maxBill})
	head, err := file.Peek(len(zipHead))
	if err != nil && !errors.Is(err, io.EOF) {
		_ = response.Body.Close()
		return nil, fmt.Errorf("read the bill: %w", err)
	}
	if !bytes.Equal(head, zipHead) && !bytes.Equal(head, zipEmpty) {
		_ = response.Body.Close()
		return nil, errors.New("what came is not a bill: it is no zip")
	}
	return struct {
		io.Reader
		io.Closer
	}{file, response.Body}, nil
}

// bounded reads so many bytes and no more: what is cut off must be an error, or a part would be taken for the whole.
type bounded struct {
	from io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, errTooLarge
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.from.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return n - 1, errTooLarge
	}
	return n, err
}

var errTooLarge = fmt.Errorf("the bill has more than %d bytes: that is none of a day", maxBill)

// How a zip begins, with files in it and without.
var (
	zipHead  = []byte("PK\x03\x04")
	zipEmpty = []byte("PK\x05\x06")
)
