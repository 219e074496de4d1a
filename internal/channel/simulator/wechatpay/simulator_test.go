package wechatpay_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel/simulator"
	"github.com/paylatch/paylatch/internal/channel/simulator/wechatpay"
)

func call(t *testing.T, method, url, authorization, body string) (int, http.Header, map[string]any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	response, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	var fields map[string]any
	_ = json.Unmarshal(text, &fields) // some answers are none
	return response.StatusCode, response.Header, fields
}

func TestARequestThatIsNotSignedByTheMerchantDoesNothing(t *testing.T) {
	t.Parallel()
	sim := wechatpay.New()
	t.Cleanup(sim.Core().Close)
	api := httptest.NewServer(sim.Handler())
	t.Cleanup(api.Close)
	for _, authorization := range []string{
		"", "Bearer x", "WECHATPAY2-SHA256-RSA2048 x",
		`WECHATPAY2-SHA256-RSA2048 mchid="1900000001",nonce_str="n",signature="AAAA",timestamp="1",serial_no="AB"`,
		`WECHATPAY2-SHA256-RSA2048 mchid="1900000001",nonce_str="n",signature="AAAA",timestamp="99999999999",serial_no="AB"`,
	} {
		status, header, answer := call(t, http.MethodPost, api.URL+"/v3/pay/transactions/native", authorization, `{"out_trade_no":"order-1"}`)
		require.Equal(t, http.StatusUnauthorized, status)
		require.Equal(t, "SIGN_ERROR", answer["code"])
		require.NotEmpty(t, header.Get("Wechatpay-Signature"))
	}
	require.Empty(t, sim.Orders())
	require.Len(t, sim.Core().Calls("prepay"), 5)
	require.Equal(t, simulator.Call{Kind: "prepay", Number: "order-1"}, sim.Core().Calls("prepay")[0])
	status, _, _ := call(t, http.MethodGet, api.URL+"/v3/billdownload/file?token=x", "", "")
	require.Equal(t, http.StatusUnauthorized, status)
}

func TestItsConfigurationHoldsAllKeysThatAreLive(t *testing.T) {
	t.Parallel()
	var config map[string]any
	require.NoError(t, json.Unmarshal(wechatpay.New().Config("http://localhost:1"), &config))
	require.Len(t, config["public_keys"], 1)
	require.Len(t, config["platform_certificates"], 2)
	require.Len(t, config["api_v3_key"], 32)
	require.Equal(t, "http://localhost:1", config["base_url"])
}

func TestWhatCannotBeIsSaid(t *testing.T) {
	t.Parallel()
	sim := wechatpay.New()
	t.Cleanup(sim.Core().Close)
	require.Error(t, sim.Pay("order-1"))
	require.Error(t, sim.SettleRefund("refund-1", "SUCCEEDED"))
	require.Error(t, sim.SettleShare("share-1"))
	require.Error(t, sim.SettleReturn("return-1", true))
	require.Error(t, sim.NotifyShare("share-1", "1", "http://localhost:1"))
}
