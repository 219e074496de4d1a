// Package stripe is the channel of Stripe: signed webhooks in, the REST API v1 out. It needs no SDK: the signature is one
// HMAC (which stripe-go measures by its own clock and on one side only), and a dozen form-encoded calls are shorter than
// their use through one.
//
// # What is what
//
// The PaymentIntent's id is the transaction, whichever event tells of it (payment_intent.*, charge.*, checkout.session.*):
// several events, one key. A charge that has no PaymentIntent stands for itself. The order is metadata.out_trade_no, or the
// client_reference_id of a Checkout session; the refund is metadata.out_refund_no; a leg of a sharing is one transfer with
// metadata.out_order_no. A refund that was made without us has its PaymentIntent and no number of ours.
//
// What our own queries bring (a PaymentIntent, a session, a refund, a list of transfers) is read by the same Parse and
// gives the same events as the webhooks. Stripe does not sign replies: TLS is the proof, and plain http goes to this
// machine alone.
//
// # Idempotency
//
// Every call that makes something carries an Idempotency-Key made of our number alone. Stripe keeps a key's first answer for
// about a day, answers of 500 included, and then forgets the key (docs.stripe.com/api/idempotent_requests). So:
//   - refunds, transfers and reversals are looked for under our number before they are made: lists are consistent, and the
//     look costs one call where forgetting would cost money;
//   - an order is looked for where it is older than the keys live, or where nobody said how old it is: by Search, which lags
//     by a minute (an hour in outages) and is covered by the key meanwhile;
//   - what was answered with 500 stays unknown until a query knows it, or until the key is forgotten and the next call, which
//     looks first, does it. It is never tried under another key;
//   - a definite answer of the query "unknown order" needs both: Search, and the list of the last hour.
//
// # Sharing
//
// A sharing is one transfer per receiver out of the payment's charge (source_transaction). Stripe puts such transfers into
// the charge's transfer_group, or names it group_{PaymentIntent}; that group is the share's id. A transfer is final at once:
// there is nothing to finish, and a leg is closed only where Stripe refused its transfer. transfer.reversed says again that
// the leg was paid; what came back is asked for by the return.
//
// # Time
//
// A bill's day is a day in UTC.
package stripe
