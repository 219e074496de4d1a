package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/paylatch/paylatch/client"
)

// server stands in for a paylatch. It gives one answer per path, as the API would, and fails once before it does.
func server(answers map[string]string) *httptest.Server {
	failed := false
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, answer, _ := strings.Cut(answers[r.Method+" "+r.URL.Path], " ")
		if !failed {
			failed, status, answer = true, "503", `{"type":"about:blank","title":"Service Unavailable","status":503,"code":"unavailable","detail":"the database does not answer; try again"}`
		}
		if status >= "400" {
			w.Header().Set("Content-Type", "application/problem+json")
		} else {
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
		}
		code := 0
		fmt.Sscan(status, &code)
		w.WriteHeader(code)
		io.WriteString(w, answer)
	}))
}

// An order is made and read. The first answer is a failure of the server; the client asks again under the same key.
func Example() {
	srv := server(map[string]string{
		"POST /v1/payments":       `201 {"out_trade_no":"book-7","state":"PENDING","amount":9900,"currency":"CNY","created_at":"2026-03-01T08:00:00Z","expires_at":"2026-03-02T08:00:00Z"}`,
		"GET /v1/payments/book-7": `200 {"out_trade_no":"book-7","state":"PAID","amount":9900,"currency":"CNY","created_at":"2026-03-01T08:00:00Z","expires_at":"2026-03-02T08:00:00Z","journal_keys":["received:1:4200001"]}`,
	})
	defer srv.Close()
	paylatch, err := client.New(srv.URL, "plk_from_tenant_add")
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	p, err := paylatch.CreatePayment(ctx, client.PaymentRequest{OutTradeNo: "book-7", Amount: 9900, Currency: "CNY"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.State)
	if p, err = paylatch.Payment(ctx, "book-7"); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.State, p.JournalKeys)
	// Output:
	// PENDING
	// PAID [received:1:4200001]
}

// A refusal is an error with a stable code. The transfer is decided under its reference: asking again does not change it.
func ExampleClient_CreateTransfer() {
	srv := server(map[string]string{
		"POST /v1/transfers": `409 {"type":"about:blank","title":"Conflict","status":409,"code":"insufficient_funds","detail":"transfer 9: an account has less available than the transfer takes"}`,
	})
	defer srv.Close()
	paylatch, err := client.New(srv.URL, "plk_from_tenant_add")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = paylatch.CreateTransfer(context.Background(), client.TransferRequest{
		From: "user:42", To: "user:43", Amount: 500, Currency: "CNY", Reference: "gift-1",
	})
	var refusal *client.Error
	switch {
	case client.HasCode(err, "insufficient_funds"):
		errors.As(err, &refusal)
		fmt.Println("not enough:", refusal.Detail)
	case err != nil:
		fmt.Println(err)
	}
	// Output: not enough: transfer 9: an account has less available than the transfer takes
}

// A merchant's endpoint verifies the bytes as they arrived, and is ready to hear of an event more than once.
func ExampleVerifyWebhook() {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		message, err := client.VerifyWebhook(r.Header, body, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		fmt.Println(message.ID, message.Type) // store it under its ID, once
	})
	forged := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"type":"payment.paid"}`))
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, forged)
	fmt.Println(answer.Code)
	// Output: 400
}
