package chaos

// expectation is what may have become of an order, by what channel and merchant remember. Where two things raced, several
// ends are right, but never two at once.
type expectation struct {
	// due are the transactions with a right report that was acknowledged: each must be booked. Maybe are those whose right
	// report was sent and never acknowledged: each may be booked. Wrong are those that were only ever reported wrong.
	due, maybe, wrong []string
	// The states that the order may have ended in.
	paid, closed, pending bool
}

// expect derives it. The reports are all authentic ones that name the order.
func expect(o *Order, reports []*Report) expectation {
	var e expectation
	closing, closingDue := false, false
	right := map[string]bool{}  // transaction to: was its right report acknowledged
	others := map[string]bool{} // transactions with a wrong report
	var order []string
	for _, rep := range reports {
		if rep.Sent == 0 {
			continue
		}
		matches := rep.Amount == o.Amount && rep.Currency == o.Currency
		switch {
		case rep.Kind == PayClosed && matches:
			closing = true
			closingDue = closingDue || rep.Acked > 0
		case rep.Kind == PaySuccess:
			if !others[rep.Transaction] {
				if _, there := right[rep.Transaction]; !there {
					order = append(order, rep.Transaction)
				}
			}
			if matches {
				right[rep.Transaction] = right[rep.Transaction] || rep.Acked > 0
			} else {
				others[rep.Transaction] = true
			}
		}
	}
	for _, transaction := range order {
		acked, isRight := right[transaction]
		switch {
		case isRight && acked:
			e.due = append(e.due, transaction)
		case isRight:
			e.maybe = append(e.maybe, transaction)
		default:
			e.wrong = append(e.wrong, transaction)
		}
	}
	money := len(e.due)+len(e.maybe) > 0
	e.paid = money && !o.ClosedFirst && o.Close != CloseDone
	// Told "already paid", the merchant may rely on it.
	e.closed = o.Close != ClosePaid && (closing || o.Close != "" || o.Expires > 0)
	e.pending = len(e.due) == 0 && o.Close != CloseDone && o.Close != ClosePaid && !closingDue && o.Expires == 0
	return e
}

func (e expectation) allows(state string) bool {
	switch {
	case isPaid(state):
		return e.paid
	case state == "CLOSED":
		return e.closed
	case state == "PENDING":
		return e.pending
	default:
		return false
	}
}

func isPaid(state string) bool { return state == "PAID" || state == "SHIPPED" || state == "COMPLETED" }
