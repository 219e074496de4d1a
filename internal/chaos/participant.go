package chaos

import (
	"encoding/json"
	"hash/fnv"
	"net/http"
	"strings"
)

// participantName is how merchants' transfers name the external participant.
const participantName = "depot"

// Phases is what the external participant did for one transfer.
type Phases struct {
	Tried     int `json:"tried"`
	Confirmed int `json:"confirmed"`
	Cancelled int `json:"cancelled"`
}

// participant is an external system that takes part in transfers. It stumbles on some first calls: it does its work and
// answers 503. It is part of the controlling process, so it is never killed.
type participant struct{ record *Record }

func (p participant) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var call struct {
		Phase string `json:"phase"`
		Body  struct {
			Key    string `json:"key"`
			Refuse bool   `json:"refuse"`
		} `json:"body"`
	}
	if err := json.NewDecoder(r.Body).Decode(&call); err != nil || call.Body.Key == "" {
		p.record.strange("the participant cannot read its call: %v", err)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if !strings.HasSuffix(r.URL.Path, "/"+call.Phase) {
		p.record.strange("the participant was called at %s to %s", r.URL.Path, call.Phase)
	}
	w.WriteHeader(p.act(call.Body.Key, call.Phase, call.Body.Refuse))
}

func (p participant) act(key, phase string, refuse bool) (status int) {
	stumbles := stumblesAt(key, phase)
	p.record.keep(func() {
		told := p.record.Told[key]
		if told == nil {
			told = &Phases{}
			p.record.Told[key] = told
		}
		calls := 0
		switch phase {
		case "try":
			if refuse {
				status = http.StatusUnprocessableEntity
				return
			}
			told.Tried++
			calls = told.Tried
		case "confirm":
			told.Confirmed++
			calls = told.Confirmed
		case "cancel":
			told.Cancelled++
			calls = told.Cancelled
		}
		status = http.StatusOK
		if stumbles && calls == 1 {
			status = http.StatusServiceUnavailable
		}
	})
	return status
}

// stumblesAt is true for one call in five, always the same ones.
func stumblesAt(key, phase string) bool {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key + phase)) // a hash takes all bytes
	return h.Sum32()%5 == 0
}
