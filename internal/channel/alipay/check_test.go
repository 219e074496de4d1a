package alipay_test

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/channel/alipay"
	sim "github.com/paylatch/paylatch/internal/channel/simulator/alipay"
)

// checked opens an account at a simulator with a change to its right configuration, and checks it.
func checked(t *testing.T, change func(*alipay.Config)) []channel.Finding {
	t.Helper()
	s := sim.New()
	gateway := httptest.NewServer(s.Handler())
	t.Cleanup(gateway.Close)
	t.Cleanup(s.Core().Close)
	var cfg alipay.Config
	require.NoError(t, json.Unmarshal(s.Config(gateway.URL), &cfg))
	change(&cfg)
	account, err := alipay.Channel{}.Open("main", toJSON(t, cfg))
	require.NoError(t, err)
	findings := account.(channel.Acquirer).Check(t.Context())
	for _, f := range findings {
		require.NotEmpty(t, f.What)
		require.NotEmpty(t, f.Detail)
		for _, secret := range []string{cfg.AppPrivateKey, cfg.AppPrivateKey[30:60], "sign=", "biz_content"} {
			require.NotContains(t, f.Detail, secret)
		}
	}
	return findings
}

// wrong gives the details of what is not in order.
func wrong(findings []channel.Finding) (list []string) {
	for _, f := range findings {
		if !f.OK {
			list = append(list, f.What+": "+f.Detail)
		}
	}
	return list
}

func TestAnAccountThatIsInOrder(t *testing.T) {
	t.Parallel()
	findings := checked(t, func(*alipay.Config) {})
	require.Empty(t, wrong(findings))
	require.Len(t, findings, 5)
}

func TestEachFaultOfAnAccountIsNamed(t *testing.T) {
	t.Parallel()
	nobody := httptest.NewServer(nil)
	nobody.Close()
	for name, c := range map[string]struct {
		change func(*alipay.Config)
		want   []string
	}{
		"another app's private key": {func(c *alipay.Config) { c.AppPrivateKey = privateText(appKey()) },
			[]string{"Alipay accepts the app's signature", "upload the public half of app_private_key", "isv.invalid-signature"}},
		"another app's id": {func(c *alipay.Config) { c.AppID = "2021000000000099" },
			[]string{"Alipay accepts the app's signature", "look at app_id", "isv.invalid-app-id"}},
		"another public key": {func(c *alipay.Config) { c.AlipayPublicKey = publicText(t, &otherKey().PublicKey) },
			[]string{"Alipay's signature holds", "alipay_public_key", "支付宝公钥"}},
		"an address where nobody is": {func(c *alipay.Config) { c.BaseURL = nobody.URL + "/gateway.do" },
			[]string{"the gateway is reached", "look at base_url", "refused"}},
		"an address of somebody else": {func(c *alipay.Config) { c.BaseURL = strings.TrimSuffix(c.BaseURL, "gateway.do") + "elsewhere" },
			[]string{"the gateway is reached", "look at base_url", "status 404"}},
		"a page in between": {func(c *alipay.Config) { c.BaseURL = serveReply(t, "<html>log in to the network</html>") },
			[]string{"Alipay's signature holds", "not one JSON object"}},
	} {
		faults := wrong(checked(t, c.change))
		require.Len(t, faults, 1, name)
		for _, want := range c.want {
			require.Contains(t, faults[0], want, name)
		}
	}
}

func TestWhatAlipaySaysOfAnApp(t *testing.T) {
	t.Parallel()
	for sub, want := range map[string]string{
		"isv.insufficient-isv-permissions": "add the product",
		"isv.missing-signature-key":        "upload the public half",
		"isv.missing-app-cert-sn":          "set it to keys",
		"isv.invalid-timestamp":            "clock",
		"isv.something-of-tomorrow":        "isv.something-of-tomorrow",
	} {
		account := scripted(t, map[string]string{"alipay.trade.query": failing("40006", sub)})
		faults := wrong(account.Check(t.Context()))
		require.Len(t, faults, 1)
		require.Contains(t, faults[0], want)
	}
}
