package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/onceledger/onceledger/internal/faultpoint"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/envelope"
)

// thinkingLimit is how long the rules of one event may take. Their cost is
// bounded, so this is for faults of our own.
const thinkingLimit = 5 * time.Second

// errThinking means that the rules did not end within thinkingLimit.
var errThinking = errors.New("the rules took longer than 5s")

// understand lets the rules say what each item is. An event whose rules panic
// or do not end gets a fault and is tried alone; the others go on.
func (w *worker) understand(ctx context.Context, items []*item) {
	for rest := items; len(rest) > 0; {
		answers := make(chan answer, len(rest))
		go w.think(ask(rest), answers) // abandoned if it hangs: there is no way to end it
		n := collect(ctx, rest, answers)
		if n == len(rest) {
			return
		}
		rest[n].fault = errThinking
		rest = rest[n+1:]
	}
}

// question is what there is to think about one item. It is a copy, since who thinks
// may go on long after everybody stopped listening, and the item goes on as well.
type question struct {
	event *envelope.Event
	known *answer // of an item that is understood
}

func ask(items []*item) []question {
	questions := make([]question, len(items))
	for i, it := range items {
		questions[i].event = it.event
		if it.understood {
			questions[i].known = &answer{decision: decision{it.decision, it.content.Rules}}
		}
	}
	return questions
}

// answer is what thinking about one item came to.
type answer struct {
	decision decision
	fault    error
}

// think answers questions in their order.
func (w *worker) think(questions []question, answers chan<- answer) {
	for _, q := range questions {
		if q.known != nil {
			answers <- *q.known
			continue
		}
		answers <- w.thinkOf(q.event)
	}
}

func (w *worker) thinkOf(event *envelope.Event) (a answer) {
	defer func() {
		if p := recover(); p != nil {
			a.fault = fmt.Errorf("the rules panicked: %v\n%s", p, debug.Stack())
		}
	}()
	if w.thinking != nil {
		w.thinking(event)
	}
	faultpoint.Judge(event.ID)
	d, version := w.cat.Decide(event)
	return answer{decision: decision{d, version}}
}

// collect takes answers until all are there or one is overdue, and returns how
// many came.
func collect(ctx context.Context, items []*item, answers <-chan answer) int {
	overdue := time.NewTimer(thinkingLimit)
	defer overdue.Stop()
	for n, it := range items {
		select {
		case a := <-answers:
			it.take(a)
		case <-overdue.C:
			return n
		case <-ctx.Done():
			return n
		}
		overdue.Reset(thinkingLimit)
	}
	return len(items)
}

// take makes the answer the item's own. A fault gives the event the meaning of
// its bytes, so that it is not taken for another.
func (it *item) take(a answer) {
	if a.fault != nil {
		it.fault = a.fault
		a.decision = decision{unreadable(dlq.RetryBudget, it.event.Data, a.fault), 0}
	}
	it.understood, it.decision = true, a.decision.Decision
	it.content.Fingerprint, it.content.Rules = a.decision.Fingerprint, a.decision.rules
	it.row.Content = it.content
}
