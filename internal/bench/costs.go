package bench

import (
	"context"
	"fmt"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
)

// flowCost is what one flow cost the engine: counts, which noise does not change.
type flowCost struct{ events, transitions, tasks float64 }

// looked is how many flows are looked at for their cost: all are alike.
const looked = 20

// costs tells what one payment cost engine and database, beside one empty flow.
func (m *callbacksMode) costs(ctx context.Context, report *Report, floor, paid *tally) error {
	base, err := engineCost(ctx, m.starter, floor.numbers)
	if err != nil {
		return err
	}
	cost, err := engineCost(ctx, m.starter, paid.numbers)
	if err != nil {
		return err
	}
	n := float64(len(paid.numbers))
	beside := func(name string, value, floor float64, unit string) {
		report.figure(Figure{Name: name + ", " + m.name, Value: value, Floor: &floor, Unit: unit})
	}
	beside("history events per payment", cost.events, base.events, "")
	beside("state transitions per payment", cost.transitions, base.transitions, "")
	beside("workflow tasks per payment", cost.tasks, base.tasks, "")
	beside("database transactions per payment, at the entry", float64(paid.entry.transactions)/n, float64(floor.entry.transactions)/n, "")
	beside("database transactions per payment, when it is booked", float64(paid.books.transactions)/n, float64(floor.books.transactions)/n, "")
	beside("round trips to the database per payment, at the entry", float64(paid.entry.roundTrips)/n, float64(floor.entry.roundTrips)/n, "")
	beside("round trips to the database per payment, when it is booked", float64(paid.books.roundTrips)/n, float64(floor.books.roundTrips)/n, "")
	beside("write-ahead log per payment", float64(paid.spent.wal)/n, float64(floor.spent.wal)/n, "bytes")
	beside("tables and indexes per payment", float64(paid.spent.size)/n, float64(floor.spent.size)/n, "bytes")
	beside("processor time of the process per payment", milliseconds(paid.processor)/n, milliseconds(floor.processor)/n, "ms")
	beside("peak memory of the process", paid.peak, floor.peak, "MiB")
	return nil
}

// engineCost looks at some flows that have ended.
func engineCost(ctx context.Context, engine client.Client, numbers []string) (c flowCost, err error) {
	numbers = numbers[:min(looked, len(numbers))]
	for _, number := range numbers {
		one, err := costOf(ctx, engine, flowID(number))
		if err != nil {
			return c, err
		}
		c.events, c.transitions, c.tasks = c.events+one.events, c.transitions+one.transitions, c.tasks+one.tasks
	}
	n := float64(len(numbers))
	return flowCost{c.events / n, c.transitions / n, c.tasks / n}, nil
}

func costOf(ctx context.Context, engine client.Client, id string) (c flowCost, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	// Its step is done; that it has ended is told a moment later.
	if err := engine.GetWorkflow(ctx, id, "").Get(ctx, nil); err != nil {
		return c, fmt.Errorf("the end of %s: %w", id, err)
	}
	described, err := engine.DescribeWorkflow(ctx, id, "")
	if err != nil {
		return c, fmt.Errorf("describe %s: %w", id, err)
	}
	info := described.RawResponse.WorkflowExecutionInfo
	c.events, c.transitions = float64(info.HistoryLength), float64(info.StateTransitionCount)
	history := engine.GetWorkflowHistory(ctx, id, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for history.HasNext() {
		event, err := history.Next()
		if err != nil {
			return c, fmt.Errorf("history of %s: %w", id, err)
		}
		if event.EventType == enums.EVENT_TYPE_WORKFLOW_TASK_STARTED {
			c.tasks++
		}
	}
	return c, nil
}
