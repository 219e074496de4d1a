package share

import _ "embed"

var (
	//go:embed sql/share.sql
	shareSQL string
	//go:embed sql/legs.sql
	legsSQL string
	//go:embed sql/payment.sql
	paymentSQL string
	//go:embed sql/reserve.sql
	reserveSQL string
	//go:embed sql/create.sql
	createSQL string
	//go:embed sql/create_legs.sql
	createLegsSQL string
	//go:embed sql/had.sql
	hadSQL string
	//go:embed sql/send.sql
	sendSQL string
	//go:embed sql/unknown.sql
	unknownSQL string
	//go:embed sql/known.sql
	knownSQL string
	//go:embed sql/reasons.sql
	reasonsSQL string
	//go:embed sql/end.sql
	endSQL string
	//go:embed sql/close_legs.sql
	closeLegsSQL string
	//go:embed sql/release.sql
	releaseSQL string
	//go:embed sql/paid.sql
	paidSQL string
	//go:embed sql/pay_leg.sql
	payLegSQL string
	//go:embed sql/close_leg.sql
	closeLegSQL string
	//go:embed sql/reopen.sql
	reopenSQL string
	//go:embed sql/reopen_legs.sql
	reopenLegsSQL string
	//go:embed sql/claim.sql
	claimSQL string
	//go:embed sql/matched.sql
	matchedSQL string
)
