package simulator

import (
	"encoding/json"
	"errors"
	"html/template"
	"io"
	"net/http"
	"strings"
)

// Control is what people and tests tell simulators to do, over HTTP on loopback: a page with a button per order, and
//
//	GET  /orders                                  what was announced, by channel
//	POST /{channel}/orders/{out_trade_no}/pay     the payer pays
//	POST /{channel}/refunds/{out_refund_no}       {"state": "SUCCEEDED" | "FAILED" | "ABNORMAL"}
//	POST /{channel}/shares/{out_order_no}         {"closed": ["receiver", …]}
//	PUT  /{channel}/faults                        how it misbehaves, see Faults
//	POST /{channel}/flush                         sends the notices that were withheld
//	GET  /{channel}/calls, /{channel}/notices     what came and what went
func Control(simulators ...Simulator) http.Handler {
	byName := map[string]Simulator{}
	for _, s := range simulators {
		byName[s.Name()] = s
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'")
		_ = page.Execute(w, simulators) // a browser that hung up has its reasons
	})
	mux.HandleFunc("GET /orders", func(w http.ResponseWriter, _ *http.Request) {
		all := map[string][]Order{}
		for _, s := range simulators {
			all[s.Name()] = s.Orders()
		}
		reply(w, all)
	})
	on := func(pattern string, do func(s Simulator, r *http.Request) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			s, ok := byName[r.PathValue("channel")]
			if !ok {
				http.Error(w, "there is no simulator of this channel", http.StatusNotFound)
				return
			}
			answer, err := do(s, r)
			switch {
			case err != nil:
				http.Error(w, err.Error(), http.StatusConflict)
			case strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded"):
				http.Redirect(w, r, "/", http.StatusSeeOther) // the page's button
			default:
				reply(w, answer)
			}
		})
	}
	on("POST /{channel}/orders/{number}/pay", func(s Simulator, r *http.Request) (any, error) {
		return nil, s.Pay(r.PathValue("number"))
	})
	on("POST /{channel}/refunds/{number}", func(s Simulator, r *http.Request) (any, error) {
		var in struct{ State string }
		if err := read(r, &in); err != nil {
			return nil, err
		}
		return nil, s.SettleRefund(r.PathValue("number"), in.State)
	})
	on("POST /{channel}/shares/{number}", func(s Simulator, r *http.Request) (any, error) {
		var in struct{ Closed []string }
		if err := read(r, &in); err != nil {
			return nil, err
		}
		return nil, s.SettleShare(r.PathValue("number"), in.Closed...)
	})
	on("PUT /{channel}/faults", func(s Simulator, r *http.Request) (any, error) {
		var f Faults
		if err := read(r, &f); err != nil {
			return nil, err
		}
		s.Core().Misbehave(f)
		return f, nil
	})
	on("POST /{channel}/flush", func(s Simulator, _ *http.Request) (any, error) { s.Core().Flush(); return nil, nil })
	on("GET /{channel}/calls", func(s Simulator, _ *http.Request) (any, error) { return s.Core().Calls(""), nil })
	on("GET /{channel}/notices", func(s Simulator, _ *http.Request) (any, error) { return s.Core().Sent(), nil })
	return mux
}

func read(r *http.Request, v any) error {
	decoder := json.NewDecoder(io.LimitReader(r.Body, 1<<20))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(v); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

func reply(w http.ResponseWriter, v any) {
	if v == nil {
		v = struct{}{}
	}
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(v) // a caller that hung up has its reasons
}

var page = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>paylatch simulators</title>
<style>
 body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 56rem; padding: 0 1rem; color: #1a1a1a }
 table { border-collapse: collapse; width: 100% } th, td { text-align: left; padding: .4rem .6rem; border-bottom: 1px solid #ddd }
 td.n { text-align: right; font-variant-numeric: tabular-nums } button { font: inherit } p { color: #555 }
 @media (prefers-color-scheme: dark) { body { background: #16181b; color: #e6e6e6 } th, td { border-color: #333 } p { color: #aaa } }
</style>
<h1>Simulators</h1>
<p>Each speaks its channel's own protocol, with keys of its own. No money is anywhere near.</p>
{{range .}}{{$channel := .Name}}<h2>{{$channel}}</h2>
{{with .Orders}}<table><tr><th>Order<th>Transaction<th>Minor units<th>Currency<th>State<th>Refunded<th></tr>
{{range .}}<tr><td>{{.OutTradeNo}}<td>{{.TransactionID}}<td class="n">{{.Amount}}<td>{{.Currency}}<td>{{.State}}<td class="n">{{.Refunded}}<td>{{if eq .State "OPEN"}}<form method="post" action="/{{$channel}}/orders/{{.OutTradeNo}}/pay"><button>Pay</button></form>{{end}}</tr>
{{end}}</table>{{else}}<p>Nothing was announced yet: create a payment with <code>"channel": "{{$channel}}"</code>.</p>{{end}}
{{end}}</html>
`))
