package tenant

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/paylatch/paylatch/internal/audit"
	"github.com/paylatch/paylatch/internal/database"
)

// Policy is what a tenant wants to happen by itself.
type Policy struct {
	// SuspenseRefund says whether money in suspense goes back to its payer by itself: [ByOperator] or [Automatic].
	SuspenseRefund string
	// RefundShortfall says what happens to a refund for which the merchant has too little: [Refuse] or [AllowReceivable].
	RefundShortfall string
	// RefundOfShared says who bears a refund of a payment that was shared: receivers give back first, [Return], or the merchant
	// pays and they owe, [Receivable].
	RefundOfShared string
}

// What a policy can be.
const (
	ByOperator      = "operator"
	Automatic       = "automatic"
	Refuse          = "refuse"
	AllowReceivable = "allow_receivable"
	Return          = "return"
	Receivable      = "receivable"
)

// ErrPolicy says that a policy has no such value.
var ErrPolicy = errors.New("a policy has no such value")

// SetPolicy changes what is not empty in p. Money that came to suspense before it went back by itself stays where it is.
// Errors: [ErrUnknown], [ErrPolicy].
func SetPolicy(ctx context.Context, engine *pgxpool.Pool, tenantID string, p Policy) error {
	if p.SuspenseRefund != "" && p.SuspenseRefund != ByOperator && p.SuspenseRefund != Automatic ||
		p.RefundShortfall != "" && p.RefundShortfall != Refuse && p.RefundShortfall != AllowReceivable ||
		p.RefundOfShared != "" && p.RefundOfShared != Return && p.RefundOfShared != Receivable {
		return ErrPolicy
	}
	err := database.InTx(ctx, engine, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `
UPDATE tenants
   SET suspense_refund_since = CASE WHEN $2 = 'automatic' AND suspense_refund <> 'automatic' THEN now() ELSE suspense_refund_since END,
       suspense_refund = coalesce(nullif($2, ''), suspense_refund), refund_shortfall = coalesce(nullif($3, ''), refund_shortfall),
       refund_of_shared = coalesce(nullif($4, ''), refund_of_shared)
 WHERE tenant_id = $1`, tenantID, p.SuspenseRefund, p.RefundShortfall, p.RefundOfShared)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return ErrUnknown
		}
		return audit.Record(ctx, tx, tenantID, audit.PolicySet, "tenant "+tenantID, fmt.Sprintf("suspense_refund=%s refund_shortfall=%s refund_of_shared=%s", p.SuspenseRefund, p.RefundShortfall, p.RefundOfShared))
	})
	if err != nil {
		return fmt.Errorf("set the policy of tenant %s: %w", tenantID, err)
	}
	return nil
}

// PolicyOf reads a tenant's policy. Error: [ErrUnknown].
func PolicyOf(ctx context.Context, engine *pgxpool.Pool, tenantID string) (p Policy, err error) {
	err = engine.QueryRow(ctx, "SELECT suspense_refund, refund_shortfall, refund_of_shared FROM tenants WHERE tenant_id = $1", tenantID).
		Scan(&p.SuspenseRefund, &p.RefundShortfall, &p.RefundOfShared)
	if errors.Is(err, pgx.ErrNoRows) {
		return p, fmt.Errorf("tenant %s: %w", tenantID, ErrUnknown)
	}
	if err != nil {
		return p, fmt.Errorf("read the policy of tenant %s: %w", tenantID, err)
	}
	return p, nil
}
