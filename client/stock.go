package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Stock is what is there of one sku; OnHand includes what is reserved.
type Stock struct {
	SKU       string    `json:"sku"`
	OnHand    int64     `json:"on_hand"`
	Reserved  int64     `json:"reserved"`
	Version   int64     `json:"version"`
	UpdatedAt time.Time `json:"updated_at"`
}

// Stock reads a sku. Code of a refusal: sku_not_found.
func (c *Client) Stock(ctx context.Context, sku string) (*Stock, error) {
	return get[Stock](ctx, c, "/v1/stock/"+url.PathEscape(sku), nil)
}

// PutStock sets what is on hand; with a version above 0 only if the stock still has it. Codes of refusals: version_conflict,
// below_reserved. With a version it is not sent again after an answer was lost: a repeat would find its own change.
func (c *Client) PutStock(ctx context.Context, sku string, onHand, version int64) (*Stock, error) {
	body, err := json.Marshal(map[string]int64{"on_hand": onHand, "version": version})
	if err != nil {
		return nil, fmt.Errorf("paylatch: write the request: %w", err)
	}
	var answer Stock
	if err := c.do(ctx, call{method: http.MethodPut, path: "/v1/stock/" + url.PathEscape(sku), body: body, once: version > 0}, &answer); err != nil {
		return nil, err
	}
	return &answer, nil
}
