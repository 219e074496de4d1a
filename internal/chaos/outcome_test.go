package chaos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/verify"
)

func TestAnOutcomePassesWhenNothingWasFound(t *testing.T) {
	t.Parallel()
	var none *Outcome
	require.False(t, none.Passed(), "what was not played has not passed")
	require.True(t, (&Outcome{}).Passed())
	require.False(t, (&Outcome{Findings: []Finding{{Lost, "x"}}}).Passed())
	require.False(t, (&Outcome{Broken: []verify.Violation{{Invariant: "x"}}}).Passed())
}

func TestAnOutcomeIsPrintedForPeopleAndWrittenForPrograms(t *testing.T) {
	t.Parallel()
	o := &Outcome{
		Seed: 7, Length: "1m0s", Took: "1m10s", Invariants: 22, EndedByThemselves: []string{"api-1: exit status 2"},
		Faults: map[Part]map[How]int{PostgreSQL: {Kill: 2, Pause: 1}, API: {Restart: 1}},
		Tally:  Tally{Credited: 3, CreditedMoney: Money{"CNY": 12345, "JPY": 7}, Parked: map[string]int{"CONFLICT": 2, "AMOUNT_MISMATCH": 1}},
		Lost:   1, Findings: []Finding{{Lost, "an event is gone"}}, Broken: []verify.Violation{{Invariant: "rule", What: "row 1"}, {Invariant: "rule", What: "row 2"}},
	}
	for i := range maxShown {
		o.Findings = append(o.Findings, Finding{Wrong, fmt.Sprint("matter ", i)})
	}
	var out bytes.Buffer
	o.Print(&out)
	for _, want := range []string{
		"seed 7", "4 times: api restart 1; postgres kill 2, pause 1", "api-1: exit status 2", "3 orders: 123.45 CNY, 7 JPY",
		"AMOUNT_MISMATCH 1, CONFLICT 2", "lost             1\n", "21 of 22 hold", "LOST: an event is gone", "… and 1 more", "BROKEN: rule: row 2",
	} {
		require.Contains(t, out.String(), want)
	}
	var read map[string]any
	require.NoError(t, json.Unmarshal(toJSON(o), &read))
	for _, key := range []string{"seed", "faults", "callbacks", "credited", "parked", "lost", "doubled", "wrong", "unsettled", "findings", "broken"} {
		require.Contains(t, read, key)
	}
}
