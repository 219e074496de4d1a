package channel

import "encoding/json"

// ProblemAck is a refusal as application/problem+json (RFC 9457), for channels that have no form of their own.
func ProblemAck(status int, code, detail string) Ack {
	body, err := json.Marshal(struct {
		Status int    `json:"status"`
		Code   string `json:"code"`
		Detail string `json:"detail"`
	}{status, code, detail})
	if err != nil {
		panic(err) // two strings and a number always marshal
	}
	return Ack{Status: status, ContentType: "application/problem+json", Body: body}
}
