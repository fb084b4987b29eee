package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/onceledger/onceledger/internal/repair"
	"github.com/onceledger/onceledger/internal/review"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// repairAll finds the events that need it, asks, and repairs one after another.
func (s *Session) repairAll(ctx context.Context, r repair.Repairer, m EventRepair, a dedupe.Action, with repairing) error {
	preview := map[[2]string]int{}
	sum, err := with.each(ctx, r, m.Filter, func(d *review.Difference) error {
		preview[[2]string{d.Row.Source, d.Row.Type}]++
		return nil
	})
	if err != nil {
		return noStream(err)
	}
	total, err := s.showRepairs(preview, sum, with)
	if err != nil || total == 0 {
		return err
	}
	if !m.DryRun && !m.Yes {
		if err := s.confirm(ctx, fmt.Sprintf("%s %s?", with.verb, count(total, "event"))); err != nil {
			return err
		}
	}
	assets, err := ledger.DeclaredAssets(ctx, r.Pool)
	if err != nil {
		return err
	}
	m.Filter.To = sum.Last // what came meanwhile was not previewed
	run := &repairRun{s: s, m: m, with: with, assets: assets, count: map[string]int{}}
	bar := s.progress(with.verb, total)
	// What one event gives back may be what another one needs: those that were
	// refused are tried again while that changes anything.
	for {
		before := run.count[with.done]
		run.refused = nil
		_, err = with.each(ctx, r, m.Filter, func(d *review.Difference) error {
			done, failed := with.do(ctx, d.Row.Key, a, m.options())
			if failed != nil && ctx.Err() != nil {
				return failed
			}
			return run.add(repairedEvent(d.Row.Key, m, done, failed, assets))
		})
		_ = bar.Set(run.count[with.done]) // a progress bar that cannot be drawn is no error
		if err != nil || m.DryRun || len(run.refused) == 0 || run.count[with.done] == before {
			break
		}
	}
	_ = bar.Finish() // as above
	return run.end(err)
}

// each calls f for the differences that this kind of repair is for.
func (with repairing) each(ctx context.Context, r repair.Repairer, filter review.Filter, f func(*review.Difference) error) (review.Summary, error) {
	return review.Each(ctx, review.Options{JS: r.JS, Pool: r.Pool, Catalog: r.Catalog, Filter: filter}, func(d *review.Difference) error {
		if !with.needs(d) {
			return nil
		}
		return f(d)
	})
}

// showRepairs prints how many events of which source and type would be repaired;
// beside JSON results it goes where errors go.
func (s *Session) showRepairs(preview map[[2]string]int, sum review.Summary, with repairing) (total int, err error) {
	out := s.Out
	if s.JSON {
		out = s.errors()
	}
	t := newTable(out, "EVENTS", "SOURCE", "TYPE")
	for _, key := range slices.SortedFunc(maps.Keys(preview), func(a, b [2]string) int {
		return cmp.Or(cmp.Compare(preview[b], preview[a]), slices.Compare(a[:], b[:]))
	}) {
		t.row(fmt.Sprint(preview[key]), key[0], key[1])
		total += preview[key]
	}
	if total > 0 {
		if err := t.flush(); err != nil {
			return 0, err
		}
	}
	fmt.Fprintf(out, "%s of %d compared to %s\n", count(total, "event"), sum.Compared, with.verb)
	if sum.Outside > 0 {
		fmt.Fprintf(out, "%s: their messages have left the stream, and nobody can compare them\n", count(sum.Outside, "applied event"))
	}
	return total, nil
}

// maxRefused bounds the refusals that are kept.
const maxRefused = 10_000

// repairRun counts what becomes of many events.
type repairRun struct {
	s                *Session
	m                EventRepair
	with             repairing
	assets           *ledger.Assets
	count            map[string]int
	refused          []*RepairedEvent // of the last pass
	reversed, posted int
}

// add prints and counts one event; what is refused is kept for the end.
func (r *repairRun) add(e *RepairedEvent) error {
	if e.Result == "refused" {
		if len(r.refused) < maxRefused {
			r.refused = append(r.refused, e)
		}
		return nil
	}
	r.count[e.Result]++
	r.reversed += len(e.Reversed)
	r.posted += len(e.Posted)
	if r.s.JSON {
		return r.s.object(e)
	}
	return nil
}

// end prints what was refused, and the sum, also of a run that was cut short.
func (r *repairRun) end(err error) error {
	if r.s.JSON {
		for _, e := range r.refused {
			err = errors.Join(err, r.s.object(e))
		}
		return errors.Join(err, r.refusals())
	}
	would := ""
	if r.m.DryRun {
		would = "would be "
	}
	done := count(r.count[r.with.done], "event") + " " + would + r.with.done
	if r.with.verb == "correct" {
		done += fmt.Sprintf(": %d reversed, %d posted", r.reversed, r.posted)
	}
	fmt.Fprintln(r.s.Out, done)
	uncorrectable := false
	for _, e := range r.refused {
		name := fmt.Sprintf("event %s of %s: ", e.ID, e.Source)
		fmt.Fprintf(r.s.Out, "refused: %s%s\n", name, strings.TrimPrefix(e.Error, r.with.verb+" "+name))
		uncorrectable = uncorrectable || e.uncorrectable
	}
	if uncorrectable {
		fmt.Fprintln(r.s.Out, uncorrectableHint)
	}
	return errors.Join(err, r.refusals())
}

// refusals is an error if there were any.
func (r *repairRun) refusals() error {
	if len(r.refused) == 0 {
		return nil
	}
	return fmt.Errorf("%s refused; they stay as they were", count(len(r.refused), "event"))
}
