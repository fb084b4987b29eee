// Package breakage breaks the product on purpose, each time in a way in which
// real systems are broken, so that the torture test can show that it would find
// it. The sources stay as they are: the compiler is given changed copies.
//
//	overlay, err := breakage.Named("ack-first").Overlay(root, dir)
//	// go build -overlay=overlay …
package breakage

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/onceledger/onceledger/internal/faultpoint"
	"github.com/onceledger/onceledger/test/torture/fault"
)

// Breakage is a fault put into the product.
type Breakage struct {
	Name string
	// What says what is broken, as docs/reliability.md does.
	What string
	// Finds is what must be among the findings: what this fault does, and not only
	// something that is odd.
	Finds string
	// ShownBy is the harm under which it does that: a short plan may have drawn none
	// of it.
	ShownBy []fault.Fault
	Edits   []Edit
}

// Edit replaces the one place in a file where Old stands.
type Edit struct{ File, Old, New string }

const (
	loop     = "internal/worker/loop.go"
	item     = "internal/worker/item.go"
	park     = "internal/worker/park.go"
	claim    = "pkg/dedupe/claim.go"
	rows     = "pkg/dedupe/rows.go"
	batch    = "pkg/ledger/batch.go"
	reserve  = "pkg/ledger/reserve.go"
	write    = "pkg/ledger/write.go"
	coalesce = "internal/receiver/coalesce.go"
)

// killed is workers killed in the midst of a batch, at these points.
func killed(points ...string) []fault.Fault {
	list := make([]fault.Fault, len(points))
	for i, point := range points {
		list[i] = fault.Fault{Kind: fault.KillAt, Target: fmt.Sprintf("worker-%d", 1+i), Point: point}
	}
	return list
}

// All lists every breakage.
var All = []Breakage{
	{
		Name:    "claim-trusted",
		What:    "a claim in Redis is taken for the event being done",
		Finds:   "has no row|answered without an outcome|not parked as a conflict",
		ShownBy: killed(faultpoint.Claimed, faultpoint.Claimed, faultpoint.Claimed),
		Edits: []Edit{
			{loop, `		case claim == dedupe.Done:
			done = append(done, it)
		case claim == dedupe.Held && it.delivered <= 1:
			it.wait(jitter(heldDelay))
`, `		case claim == dedupe.Done, claim == dedupe.Held:
			it.ack(outcomeDuplicate)
`},
			{claim, `Lease = 4 * time.Second`, `Lease = time.Hour`},
		},
	},
	{
		Name:    "ack-first",
		What:    "a delivery is acknowledged before its transaction commits",
		Finds:   "has no row|answered without an outcome|still (pending|processing)",
		ShownBy: killed(faultpoint.Claimed, faultpoint.Reserved, faultpoint.Claimed),
		Edits: []Edit{{loop, `	leaders, rest := fold(items)
`, `	for _, it := range items {
		_ = it.msg.Ack()
	}
	leaders, rest := fold(items)
`}},
	},
	{
		Name:  "no-lock-order",
		What:  "a batch locks its rows, operations and accounts in no order, and accounts one by one",
		Finds: "deadlocks in Postgres' log",
		Edits: []Edit{
			{rows, `	slices.SortStableFunc(rows, func(a, c *Row) int { return a.Key.Compare(c.Key) })
	r := &Reservation`, `	slices.Reverse(rows[:0])
	r := &Reservation`},
			{batch, `	return slices.Sorted(maps.Keys(ops))
`, `	return slices.Collect(maps.Keys(ops))
`},
			{reserve, `	slices.SortFunc(limited, func(a, o *account) int { return a.compare(o.accountKey) })
`, `	slices.Reverse(limited[:0])
`},
			{reserve, `	q.Queue(` + "`" + `
		SELECT k.n, a.ctid,`, `	for i := range n {
		q.Queue(` + "`" + `
		SELECT k.n, a.ctid,`},
			{reserve, `		ORDER BY a.name, a.asset
		FOR NO KEY UPDATE OF a` + "`" + `, names, assets).Query(func(found pgx.Rows) error { return b.noteLocked(found, limited) })
`, `
		FOR NO KEY UPDATE OF a` + "`" + `, names[i:i+1], assets[i:i+1]).Query(func(found pgx.Rows) error { return b.noteLocked(found, limited[i:i+1]) })
	}
`},
			{write, `	slices.SortFunc(others, func(a, o *account) int { return a.compare(o.accountKey) })
`, `	slices.Reverse(others[:0])
`},
			// One statement for each: else two batches meet too seldom for a short run.
			{write, `	q.Queue(` + "`" + `
		INSERT INTO accounts AS a`, `	for i := range accounts {
		q.Queue(` + "`" + `
		INSERT INTO accounts AS a`},
			{write, `		m.names, m.assets, m.debits, m.credits, m.rules, m.policies)
`, `		m.names[i:i+1], m.assets[i:i+1], m.debits[i:i+1], m.credits[i:i+1], m.rules[i:i+1], m.policies[i:i+1])
	}
`},
		},
	},
	{
		Name:    "parked-before-marked",
		What:    "the delivery of a parked event is ended, and only then its row marked failed",
		Finds:   "has no row|answered without an outcome|letter 0 is not in DLQ",
		ShownBy: killed(faultpoint.Reserved, faultpoint.Reserved, faultpoint.Reserved),
		Edits: []Edit{
			{item, `type item struct {
`, `type item struct {
	early uint64
`},
			{loop, `		if err := l.commit(ctx, plain); err != nil {
`, `		for _, it := range plain {
			if it.decision.Parked == "" {
				continue
			}
			it.row.Reason = string(it.decision.Parked)
			if seq, err := l.letter(ctx, it); err == nil {
				it.early = seq
				_ = it.msg.TermWithReason(it.row.Reason)
			}
		}
		if err := l.commit(ctx, plain); err != nil {
`},
			{park, `		seq, err := l.letter(ctx, it)
`, `		seq, err := it.early, error(nil)
		if seq == 0 {
			seq, err = l.letter(ctx, it)
		}
`},
		},
	},
	{
		Name:    "lru-before-puback",
		What:    "the receiver answers a resend from its memory before the first delivery is stored, or after it was not",
		Finds:   "accepted [0-9]+ times, and not in EVENTS",
		ShownBy: slices.Repeat([]fault.Fault{{Kind: fault.Kill, Target: "nats", For: 2 * time.Second}}, 2),
		Edits: []Edit{
			{coalesce, `	select {
	case <-e.done:
		return true, e.err
	case <-ctx.Done():
		return true, errAborted
	}
`, `	return true, nil
`},
			{coalesce, ` && e.err != nil {
			c.remove(el)
		}
`, ` && e.err != nil {
			_ = el // it stays: the event was seen
		}
`},
		},
	},
}

// Named returns the breakage of that name; nil where there is none.
func Named(name string) *Breakage {
	for i := range All {
		if All[i].Name == name {
			return &All[i]
		}
	}
	return nil
}

// Names lists the names.
func Names() []string {
	names := make([]string, len(All))
	for i, b := range All {
		names[i] = b.Name
	}
	return names
}

// Overlay writes changed copies of root's files into dir, and the file that
// tells the compiler of them. A place that is not there, or there twice, is an
// error: the product has changed, and the breakage has to follow.
func (b *Breakage) Overlay(root, dir string) (string, error) {
	replace := map[string]string{}
	for _, e := range b.Edits {
		original := filepath.Join(root, filepath.FromSlash(e.File))
		copied, again := replace[original]
		if !again {
			copied = filepath.Join(dir, strings.ReplaceAll(e.File, "/", "-"))
		}
		from := original
		if again {
			from = copied
		}
		text, err := os.ReadFile(from)
		if err != nil {
			return "", fmt.Errorf("break %s: %w", b.Name, err)
		}
		if n := strings.Count(string(text), e.Old); n != 1 {
			return "", fmt.Errorf("break %s: the place to change is %d times in %s, want 1", b.Name, n, e.File)
		}
		if err := os.WriteFile(copied, []byte(strings.Replace(string(text), e.Old, e.New, 1)), 0o600); err != nil {
			return "", fmt.Errorf("break %s: %w", b.Name, err)
		}
		replace[original] = copied
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", fmt.Errorf("break %s: %w", b.Name, err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return "", fmt.Errorf("break %s: %w", b.Name, err)
	}
	return file, nil
}
