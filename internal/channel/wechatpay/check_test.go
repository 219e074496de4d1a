package wechatpay_test

import (
	"crypto/x509"
	"encoding/pem"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/channel"
	simulated "github.com/paylatch/paylatch/internal/channel/simulator/wechatpay"
)

// faultsOf gives what a check found wrong.
func faultsOf(t *testing.T, a channel.Acquirer) string {
	t.Helper()
	var faults []string
	findings := a.Check(t.Context())
	require.NotEmpty(t, findings)
	for _, f := range findings {
		require.NotEmpty(t, f.What)
		require.NotEmpty(t, f.Detail)
		if !f.OK {
			faults = append(faults, f.What+": "+f.Detail)
		}
	}
	return strings.Join(faults, "\n")
}

func TestACheckFindsNothingWrongWhereAllIsRight(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	require.Empty(t, faultsOf(t, h))
	require.Empty(t, h.sim.Orders(), "it changes nothing")
	require.Equal(t, 1, h.calls("query"))
	details := ""
	for _, f := range h.Check(t.Context()) {
		details += f.What + ": " + f.Detail + "\n"
	}
	require.Contains(t, details, "decrypts")
	require.Contains(t, details, "does not expire")
}

func TestACheckSaysInPlainWordsWhatIsWrong(t *testing.T) {
	t.Parallel()
	p := thePlatform()
	now := time.Now()
	certificates := func(certs map[string]string) func(map[string]any) {
		return func(c map[string]any) { maps.Copy(c["platform_certificates"].(map[string]any), anyMap(certs)) }
	}
	for name, c := range map[string]struct {
		change func(config map[string]any)
		want   []string
	}{
		"another private key": {
			func(c map[string]any) { c["merchant_private_key"] = privatePEM(p.merchant) },
			[]string{"SIGN_ERROR", "merchant_private_key"},
		},
		"another serial number": {
			func(c map[string]any) { c["merchant_serial"] = "ABCDEF0123456789" },
			[]string{"SIGN_ERROR", "ABCDEF0123456789"},
		},
		"another merchant": {
			func(c map[string]any) { c["mch_id"] = "1900000002" },
			[]string{"SIGN_ERROR", "1900000002"},
		},
		"another APIv3 key": {
			func(c map[string]any) { c["api_v3_key"] = apiV3Key },
			[]string{"api_v3_key", "no notice can be decrypted"},
		},
		"another public key under the id": {
			func(c map[string]any) {
				for id := range c["public_keys"].(map[string]any) {
					c["public_keys"] = map[string]string{id: publicPEM(&p.public.PublicKey)}
				}
			},
			[]string{"does not hold"},
		},
		"a public key that WeChat Pay does not sign with": {
			func(c map[string]any) {
				c["public_keys"] = map[string]string{publicID: publicPEM(&p.public.PublicKey)}
				delete(c, "platform_certificates")
			},
			[]string{"do not list"},
		},
		"an old certificate alone": {
			func(c map[string]any) {
				delete(c, "public_keys")
				c["platform_certificates"] = map[string]string{p.oldSerial: p.expiredCert}
			},
			[]string{"expired on", "none is valid now", "do not list"},
		},
		"a certificate that ends soon": {
			certificates(map[string]string{p.oldSerial: certificate(p.old, p.oldSerial, now.AddDate(-5, 0, 0), now.AddDate(0, 0, 29))}),
			[]string{"expires on", "beside it"},
		},
		"a certificate of the future": {
			certificates(map[string]string{p.oldSerial: certificate(p.old, p.oldSerial, now.AddDate(0, 0, 1), now.AddDate(5, 0, 0))}),
			[]string{"not valid before"},
		},
		"a closed port": {
			func(c map[string]any) { c["base_url"] = closedPort(t) },
			[]string{"cannot be reached"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, c.change)
			faults := faultsOf(t, h)
			for _, want := range c.want {
				require.Contains(t, faults, want)
			}
			require.NotContains(t, faults, "BEGIN")
		})
	}
}

func TestACheckNamesACertificateThatIsMissing(t *testing.T) {
	t.Parallel()
	without := func(old bool) (serial, faults string) {
		h := newHouse(t, func(c map[string]any) {
			delete(c, "public_keys")
			certs := c["platform_certificates"].(map[string]any)
			serial = bySerial(t, certs, old)
			delete(certs, serial)
		})
		return serial, faultsOf(t, h)
	}
	serial, faults := without(true)
	require.Contains(t, faults, serial, "WeChat Pay may still sign with it")
	require.Contains(t, faults, "refused until it does")
	_, faults = without(false)
	require.Contains(t, faults, "do not list", "WeChat Pay answers under it")
}

// bySerial gives the serial number of the older or the newer of two certificates.
func bySerial(t *testing.T, certs map[string]any, older bool) string {
	t.Helper()
	serials := slices.SortedFunc(maps.Keys(certs), func(a, b string) int {
		return beginOf(t, certs[a].(string)).Compare(beginOf(t, certs[b].(string)))
	})
	require.Len(t, serials, 2)
	if older {
		return serials[0]
	}
	return serials[1]
}

func beginOf(t *testing.T, text string) time.Time {
	t.Helper()
	block, _ := pem.Decode([]byte(text))
	require.NotNil(t, block)
	cert, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	return cert.NotBefore
}

func TestACheckTellsAGatewayFromWeChatPay(t *testing.T) {
	t.Parallel()
	faults := faultsOf(t, stub(t, "", unavailable))
	require.Contains(t, faults, "not signed")
	require.Contains(t, faults, "503")
}

func closedPort(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(simulated.New().Handler())
	server.Close()
	return server.URL
}

func anyMap(m map[string]string) map[string]any {
	all := map[string]any{}
	for k, v := range m {
		all[k] = v
	}
	return all
}
