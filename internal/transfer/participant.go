package transfer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/paylatch/paylatch/internal/audit"
	"github.com/paylatch/paylatch/internal/channel/standard"
	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/strictjson"
)

// ParticipantConfig is an external participant as an operator registers it: requests name it and never an address.
type ParticipantConfig struct {
	TryURL     string `json:"try_url"`
	ConfirmURL string `json:"confirm_url"`
	CancelURL  string `json:"cancel_url"`
	// Secret signs the calls after Standard Webhooks: whsec_ and 24 to 64 bytes in base64.
	Secret string `json:"secret"`
}

var participantName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// ErrUnknownParticipant says that the tenant has not registered this participant.
var ErrUnknownParticipant = errors.New("no such participant")

// ErrOtherPhase says that the transfer is not in the state that a phase belongs to: the call is late, and must not be made.
var ErrOtherPhase = errors.New("the transfer is in another phase")

// stateOfPhase is the state in which a participant may be told a phase.
var stateOfPhase = map[string]State{"try": Trying, "confirm": Confirming, "cancel": Cancelling}

// Refused is a participant's definite no: trying again does not change it.
type Refused struct{ Status int }

func (r *Refused) Error() string {
	return fmt.Sprintf("the participant refused with status %d", r.Status)
}

func readParticipant(config []byte) (ParticipantConfig, error) {
	var p ParticipantConfig
	if err := strictjson.UnmarshalKnown(config, &p); err != nil {
		return p, errors.New("the configuration of a participant has try_url, confirm_url, cancel_url and secret")
	}
	for _, text := range []string{p.TryURL, p.ConfirmURL, p.CancelURL} {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || u.User != nil {
			return p, errors.New("try_url, confirm_url and cancel_url must be URLs without user and password")
		}
		loopback := u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback()
		if u.Scheme != "https" && (u.Scheme != "http" || !loopback) {
			return p, errors.New("a participant is called by https, or by http on this machine alone")
		}
	}
	if _, err := standard.Sign(p.Secret, "check", time.Now(), nil); err != nil {
		return p, fmt.Errorf("secret: %w", err)
	}
	return p, nil
}

// PutParticipant registers a participant of a tenant, or gives it a new configuration.
func (s *Service) PutParticipant(ctx context.Context, tenantID, name string, config []byte) error {
	if !participantName.MatchString(name) {
		return fmt.Errorf("participant %q: a name is 1 to 64 of letters, digits and _-. and begins with a letter or digit", name)
	}
	if _, err := readParticipant(config); err != nil {
		return fmt.Errorf("participant %s: %w", name, err)
	}
	err := database.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `
INSERT INTO participants (tenant_id, name, config) VALUES ($1, $2, $3)
ON CONFLICT (tenant_id, name) DO UPDATE SET config = excluded.config, updated_at = now()`, tenantID, name, s.box.Seal(config, participantContext(tenantID, name)))
		if err != nil {
			return err
		}
		return audit.Record(ctx, tx, tenantID, audit.ParticipantPut, name, "")
	})
	if err != nil {
		return fmt.Errorf("register participant %s: %w", name, err)
	}
	return nil
}

func participantContext(tenantID, name string) string { return "participants/" + tenantID + "/" + name }

// participantsExist refuses a transfer that names a participant which is not registered.
func participantsExist(ctx context.Context, tx pgx.Tx, r Request) error {
	for _, l := range r.Legs {
		if l.Type != HTTPLeg {
			continue
		}
		var there bool
		if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM participants WHERE tenant_id = $1 AND name = $2)", r.TenantID, l.Participant).Scan(&there); err != nil {
			return err
		}
		if !there {
			return fmt.Errorf("%w: %s", ErrUnknownParticipant, l.Participant)
		}
	}
	return nil
}

// participantHTTP follows no redirect: the signed call is for the registered address alone. Its time is the caller's.
var participantHTTP = &http.Client{
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// call is what a participant is told.
type call struct {
	Transfer int64           `json:"transfer"`
	GID      string          `json:"gid"`
	Leg      int             `json:"leg"`
	Phase    string          `json:"phase"`
	Body     json.RawMessage `json:"body,omitempty"`
}

// Call carries out one phase (try, confirm or cancel) of an external leg: a signed POST whose Idempotency-Key is the same
// for every attempt. nil means that the participant has done it. [*Refused] is its definite no, [ErrOtherPhase] says
// that it was not called; any other error leaves unknown whether it has done it.
func (s *Service) Call(ctx context.Context, transferID int64, leg int, phase string) error {
	t, config, target, err := s.participantOf(ctx, transferID, leg, phase)
	if err != nil {
		return err
	}
	legs, err := t.Legs()
	if err != nil {
		return err
	}
	body, err := json.Marshal(call{t.ID, t.GID, leg, phase, legs[leg].Body})
	if err != nil {
		return fmt.Errorf("write down the call: %w", err)
	}
	key := fmt.Sprintf("tr_%d_%d_%s", t.ID, leg, phase)
	header, err := standard.Sign(config.Secret, key, time.Now(), body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header = header
	request.Header.Set("Idempotency-Key", `"`+key+`"`)
	response, err := participantHTTP.Do(request)
	if err != nil {
		return fmt.Errorf("call participant %s: %w", legs[leg].Participant, err)
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10)) // its words decide nothing
	return outcome(response.StatusCode)
}

// outcome sorts a status: done, a definite no, or unknown.
func outcome(status int) error {
	switch {
	case status >= 200 && status < 300:
		return nil
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooEarly, status == http.StatusTooManyRequests:
		return fmt.Errorf("the participant answered %d: try again", status)
	case status >= 400 && status < 500:
		return &Refused{status}
	default:
		return fmt.Errorf("the participant answered %d", status)
	}
}

func (s *Service) participantOf(ctx context.Context, transferID int64, leg int, phase string) (t Transfer, config ParticipantConfig, target string, err error) {
	var secret []byte
	var name string
	err = database.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if t, err = read(ctx, tx, transferID); err != nil {
			return err
		}
		legs, err := t.Legs()
		if err != nil {
			return err
		}
		if t.State != stateOfPhase[phase] {
			return fmt.Errorf("%w: a %s of transfer %d, which is %s", ErrOtherPhase, phase, transferID, t.State)
		}
		if leg < 0 || leg >= len(legs) || legs[leg].Type != HTTPLeg {
			return fmt.Errorf("transfer %d has no external leg %d", transferID, leg)
		}
		name = legs[leg].Participant
		err = tx.QueryRow(ctx, "SELECT config FROM participants WHERE tenant_id = $1 AND name = $2", t.TenantID, name).Scan(&secret)
		if errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("%w: %s", ErrUnknownParticipant, name)
		}
		return err
	})
	if err != nil {
		return t, config, "", fmt.Errorf("look up the participant: %w", err)
	}
	plain, err := s.box.Open(secret, participantContext(t.TenantID, name))
	if err != nil {
		return t, config, "", fmt.Errorf("open the configuration of participant %s: %w", name, err)
	}
	if config, err = readParticipant(plain); err != nil {
		return t, config, "", err
	}
	switch phase {
	case "try":
		return t, config, config.TryURL, nil
	case "confirm":
		return t, config, config.ConfirmURL, nil
	case "cancel":
		return t, config, config.CancelURL, nil
	default:
		return t, config, "", fmt.Errorf("no phase %q", phase)
	}
}
