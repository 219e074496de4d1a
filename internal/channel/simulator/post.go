package simulator

import (
	"bytes"
	"io"
	"net/http"
)

// post sends one attempt; the status is 0 without an answer.
func (c *Core) post(url string, header http.Header, body []byte) (status int, answer string) {
	req, err := http.NewRequestWithContext(c.ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	req.Header = header
	response, err := c.client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(text)
}
