package alipay_test

import (
	"bytes"
	"crypto"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/encoding/simplifiedchinese"

	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/channel/alipay"
)

var now = time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)

func TestWhatParametersHoldDoesNotDisturbTheSignature(t *testing.T) {
	t.Parallel()
	account := open(t)
	for name, params := range map[string]map[string]string{
		"a plus":                 {"subject": "a+b c"},
		"an entity":              {"fund_bill_list": `[{&quot;amount&quot;:&quot;0.01&quot;}]`},
		"JSON":                   {"fund_bill_list": `[{"amount":"0.01","fundChannel":"ALIPAYACCOUNT"}]`},
		"an ampersand":           {"subject": "tea & cake = 2"},
		"Chinese":                {"subject": "大乐透2.1"},
		"GBK":                    {"charset": "GBK", "subject": "\xb2\xe8\xd2\xb6\xc5\xe7"},
		"GBK named otherwise":    {"charset": "utf-8", "subject": "\xb2\xe8"},
		"an unknown parameter":   {"zzz_new": "1", "AAA_new": "2"},
		"an empty parameter":     {"body": "", "passback_params": ""},
		"line breaks":            {"body": "a\r\nb"},
		"a percent sign":         {"body": "100%25"},
		"a name like the sign's": {"sign_typed": "x", "signature": "y"},
	} {
		body := rsa2(alipayKey()).seal(t, notice(params), now)
		require.NoError(t, verify(account, body, now), name)
		require.Equal(t, channel.PaySuccess, readOne(t, account, body).Kind, name)
	}
}

func TestParametersMayStandInAnyOrder(t *testing.T) {
	t.Parallel()
	account := open(t)
	parts := strings.Split(string(rsa2(alipayKey()).seal(t, notice(map[string]string{"body": ""}), now)), "&")
	slices.Reverse(parts)
	require.NoError(t, verify(account, []byte(strings.Join(parts, "&")), now))
	rotated := append(slices.Clone(parts[5:]), parts[:5]...)
	require.NoError(t, verify(account, []byte(strings.Join(rotated, "&")), now))
}

func TestEmptyParametersMayBelongToTheSignedTextOrNot(t *testing.T) {
	t.Parallel()
	account := open(t)
	body := notice(map[string]string{"body": "", "out_biz_no": ""})
	for _, dropEmpty := range []bool{false, true} {
		s := rsa2(alipayKey())
		s.dropEmpty = dropEmpty
		require.NoError(t, verify(account, s.seal(t, body, now), now), dropEmpty)
	}
}

func TestAnEmptyParameterThatNobodySignedSaysNothing(t *testing.T) {
	t.Parallel()
	account := open(t)
	sealed := rsa2(alipayKey()).seal(t, notice(nil), now)
	want := readOne(t, account, sealed)
	for _, name := range []string{"refund_fee", "out_biz_no", "gmt_refund", "gmt_close", "trans_currency", "msg_method", "seller_email", "anything"} {
		more := append(bytes.Clone(sealed), "&"+name+"="...)
		require.NoError(t, verify(account, more, now))
		require.Equal(t, want, readOne(t, account, more), name)
	}
}

func TestAParameterThatStandsTwiceIsRefusedThoughTheSignatureHolds(t *testing.T) {
	t.Parallel()
	account := open(t)
	for _, twice := range []string{"total_amount=0.01", "total_amount=99.00", "total%5Famount=99.00", "trade_no="} {
		body := rsa2(alipayKey()).seal(t, append(notice(nil), "&"+twice...), now)
		requireRefusal(t, verify(account, body, now), 400, "parameter_ambiguous")
		requireUnusable(t, account, body)
	}
	sealed := rsa2(alipayKey()).seal(t, notice(nil), now)
	requireRefusal(t, verify(account, append(bytes.Clone(sealed), "&sign_type=RSA2"...), now), 400, "parameter_ambiguous")
}

func TestWhatIsNoFormOfAlipaysIsAPlainRefusal(t *testing.T) {
	t.Parallel()
	account := open(t)
	var many strings.Builder
	for i := range 300 {
		fmt.Fprintf(&many, "p%d=1&", i)
	}
	for name, c := range map[string]struct{ body, code string }{
		"nothing":             {"", "signature_missing"},
		"no sign":             {string(notice(nil)), "signature_missing"},
		"JSON":                {`{"alipay_trade_query_response":{"code":"10000"},"sign":"x"}`, "body_malformed"},
		"a broken escape":     {"a=%2&sign=x", "body_malformed"},
		"no hexadecimals":     {"a=%zz&sign=x", "body_malformed"},
		"very many":           {many.String() + "sign=x", "body_malformed"},
		"a sign that is none": {string(notice(nil)) + "&sign=WECHATPAY%2FSIGNTEST%2Fabc", "signature_malformed"},
		"a sign in two lines": {string(notice(nil)) + "&sign=" + url.QueryEscape("QUJD\nREVG"), "signature_malformed"},
		"stray bits":          {string(notice(nil)) + "&sign=QUI%2F", "signature_invalid"},
		"no padding":          {string(notice(nil)) + "&sign=QUI", "signature_malformed"},
	} {
		err := verify(account, []byte(c.body), now)
		var refusal *channel.Refusal
		require.ErrorAs(t, err, &refusal, name)
		require.Equal(t, c.code, refusal.Code, name)
		require.True(t, refusal.Status >= 400 && refusal.Status < 500, name)
	}
}

func TestASignatureHasOneText(t *testing.T) {
	t.Parallel()
	account := open(t)
	sealed := rsa2(alipayKey()).seal(t, notice(nil), now)
	values, err := url.ParseQuery(string(sealed))
	require.NoError(t, err)
	sign := values.Get("sign")
	require.NoError(t, verify(account, reseal(sealed, sign), now))
	last := strings.TrimRight(sign, "=")
	stray := last[:len(last)-1] + string(last[len(last)-1]+1) + "==" // the same bytes to a reader that ignores the last four bits
	for _, other := range []string{sign + "\n", sign[:76] + "\r\n" + sign[76:], stray, strings.TrimRight(sign, "=")} {
		require.Error(t, verify(account, reseal(sealed, other), now))
	}
}

func TestTheMessageCannotChooseAWeakerAlgorithm(t *testing.T) {
	t.Parallel()
	sha1 := signer{key: alipayKey(), hash: crypto.SHA1, signType: "RSA"}
	named := func(s signer, name string) signer { s.signType = name; return s }
	strong := open(t)
	weak := open(t, func(c *alipay.Config) { c.SignType = "RSA" })

	// RSA2 is what the account says: nothing else counts, and a message without sign_type is read by it.
	require.NoError(t, verify(strong, rsa2(alipayKey()).seal(t, notice(nil), now), now))
	require.NoError(t, verify(strong, named(rsa2(alipayKey()), "").seal(t, notice(nil), now), now))
	requireRefusal(t, verify(strong, sha1.seal(t, notice(nil), now), now), 401, "signature_weak")
	requireRefusal(t, verify(strong, named(sha1, "RSA2").seal(t, notice(nil), now), now), 401, "signature_invalid")
	requireRefusal(t, verify(strong, named(sha1, "").seal(t, notice(nil), now), now), 401, "signature_invalid")
	requireRefusal(t, verify(strong, named(rsa2(alipayKey()), "MD5").seal(t, notice(nil), now), now), 400, "signature_type_unknown")

	// RSA is what the account says: RSA2 is stronger and counts too, where the message names it.
	require.NoError(t, verify(weak, sha1.seal(t, notice(nil), now), now))
	require.NoError(t, verify(weak, named(sha1, "").seal(t, notice(nil), now), now))
	require.NoError(t, verify(weak, rsa2(alipayKey()).seal(t, notice(nil), now), now))
	requireRefusal(t, verify(weak, named(rsa2(alipayKey()), "RSA").seal(t, notice(nil), now), now), 401, "signature_invalid")
}

func TestTheTimeIsJudgedAfterTheSignatureAndInShanghai(t *testing.T) {
	t.Parallel()
	account := open(t)
	stale := now.Add(-time.Hour)
	requireRefusal(t, verify(account, rsa2(alipayKey()).seal(t, notice(nil), stale), now), 401, "timestamp_stale")
	requireRefusal(t, verify(account, rsa2(otherKey()).seal(t, notice(nil), stale), now), 401, "signature_invalid")
	requireRefusal(t, verify(account, rsa2(alipayKey()).seal(t, notice(nil), now.Add(time.Hour)), now), 401, "timestamp_future")

	// 16:00 in Shanghai is 8:00 UTC.
	require.NoError(t, verify(account, rsa2(alipayKey()).sealAsIs(t, notice(map[string]string{"notify_time": "2026-03-01 16:00:00"})), now))
	for _, none := range []string{"-", ""} {
		requireRefusal(t, verify(account, rsa2(alipayKey()).sealAsIs(t, notice(map[string]string{"notify_time": none})), now), 401, "not_a_notice")
	}
	requireRefusal(t, verify(account, rsa2(alipayKey()).sealAsIs(t, notice(map[string]string{"notify_time": "1772352000"})), now), 400, "timestamp_malformed")
}

func TestAMessageMayBeWhollyInGBK(t *testing.T) {
	t.Parallel()
	account := open(t)
	subject, err := simplifiedchinese.GBK.NewEncoder().String("茶叶喷雾|~") // its second bytes are letters and signs of ASCII too
	require.NoError(t, err)
	number, err := simplifiedchinese.GBK.NewEncoder().String("订单1")
	require.NoError(t, err)
	for _, charset := range []string{"GBK", "gbk", "GB2312", "gb18030"} {
		body := rsa2(alipayKey()).seal(t, notice(map[string]string{"charset": charset, "subject": subject, "out_trade_no": number}), now)
		require.NoError(t, verify(account, body, now))
		require.Equal(t, "订单1", readOne(t, account, body).OutTradeNo, charset)
	}
}
