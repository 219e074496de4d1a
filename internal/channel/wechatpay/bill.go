package wechatpay

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha1" //nolint:gosec // the protocol's hash of bills
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/paylatch/paylatch/internal/channel"
)

// maxBill bounds a bill as it is downloaded: compressed, a day of several million payments.
const maxBill = 256 << 20

// Bill implements [channel.Acquirer]: GET /v3/bill/tradebill, and the file that it names. That file comes unsigned; what
// proves it is its SHA-1 in the signed answer, which is over the file before compression. The whole file is checked before
// a byte of it is handed on; it is held compressed, and decompressed as it is read.
func (a *account) Bill(ctx context.Context, date channel.Date) (io.ReadCloser, error) {
	var answer struct {
		HashType    string `json:"hash_type"`
		HashValue   string `json:"hash_value"`
		DownloadURL string `json:"download_url"`
	}
	query := url.Values{"bill_date": {date.String()}, "bill_type": {"ALL"}, "tar_type": {"GZIP"}}
	_, err := a.get(ctx, "/v3/bill/tradebill", query, &answer)
	switch {
	case is(err, "STATEMENT_CREATING"):
		return nil, channel.ErrBillNotReady
	case is(err, "NO_STATEMENT_EXIST"):
		return nil, channel.ErrNoBill
	case err != nil:
		if rejection, ok := refused(err); ok {
			return nil, rejection
		}
		return nil, asked(err)
	case answer.HashType != "SHA1":
		return nil, fmt.Errorf("WeChat Pay's hash of the bill is of type %s, not SHA1", quoted(answer.HashType))
	}
	file, err := a.download(ctx, answer.DownloadURL)
	if err != nil {
		return nil, fmt.Errorf("download the bill of %s: %w", date, err)
	}
	sum, err := hashOf(file)
	if err != nil {
		return nil, fmt.Errorf("decompress the bill of %s: %w", date, err)
	}
	want, err := hex.DecodeString(answer.HashValue)
	if err != nil || subtle.ConstantTimeCompare(sum, want) != 1 {
		return nil, fmt.Errorf("the bill of %s is not the one that WeChat Pay signed: its SHA-1 is another", date)
	}
	return decompress(file)
}

// download fetches a file from the API's own hosts; a signed request goes to no other. A link lives for minutes: whoever
// tries again asks for a new one.
func (a *account) download(ctx context.Context, link string) ([]byte, error) {
	u, err := url.Parse(link)
	if err != nil || !a.trusted(u) {
		return nil, errors.New("the link leads elsewhere than to WeChat Pay")
	}
	req, err := a.request(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	response, err := a.caller.Stream(req)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the answer is %d", response.StatusCode)
	}
	file, err := io.ReadAll(io.LimitReader(response.Body, maxBill+1))
	if err != nil {
		return nil, fmt.Errorf("read the file: %w", err)
	}
	if len(file) > maxBill {
		return nil, fmt.Errorf("the file has more than %d bytes", maxBill)
	}
	return file, nil
}

// trusted tells whether a link leads to the host of the account's API, or to another of WeChat Pay's.
func (a *account) trusted(u *url.URL) bool {
	if u.User != nil {
		return false
	}
	if u.Scheme == a.base.Scheme && u.Host == a.base.Host {
		return true
	}
	return u.Scheme == "https" && u.Port() == "" && strings.HasSuffix(u.Hostname(), ".mch.weixin.qq.com")
}

// decompress reads a file that is compressed or plain.
func decompress(file []byte) (io.ReadCloser, error) {
	if !bytes.HasPrefix(file, []byte{0x1f, 0x8b}) {
		return io.NopCloser(bytes.NewReader(file)), nil
	}
	return gzip.NewReader(bytes.NewReader(file))
}

func hashOf(file []byte) ([]byte, error) {
	plain, err := decompress(file)
	if err != nil {
		return nil, err
	}
	defer plain.Close()
	h := sha1.New() //nolint:gosec // see above
	if _, err := io.Copy(h, plain); err != nil {
		return nil, err
	}
	return h.Sum(nil), nil
}
