package demo

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPlanDependsOnTheSeedAlone(t *testing.T) {
	t.Parallel()
	a, b, other := newPlan(1, full), newPlan(1, full), newPlan(2, full)
	require.Equal(t, bodies(a), bodies(b))
	require.NotEqual(t, bodies(a), bodies(other))
}

func bodies(p *plan) []string {
	var all []string
	for _, d := range p.deliveries {
		all = append(all, d.event.source+d.event.id+string(d.body))
	}
	return all
}

func TestPlanHoldsWhatItPromises(t *testing.T) {
	t.Parallel()
	p := newPlan(3, full)
	require.Len(t, p.events, 15_000)
	require.Len(t, p.deliveries, 20_000)

	keys, accounts, reasons := map[key]bool{}, map[string]bool{}, map[string]int{}
	twins, rivals, sources := 0, 0, map[string]int{}
	for _, e := range p.events {
		keys[key{source: e.source, id: e.id}] = true
		sources[e.source]++
		reasons[e.want.reason]++
		for _, m := range e.contents[0].moves {
			accounts[m.debit], accounts[m.credit] = true, true
		}
		if e.twin != nil {
			twins++
			require.Equal(t, e.contents[0].moves, e.twin.contents[0].moves)
		}
		if len(e.contents) == 2 {
			rivals++
			require.NotEqual(t, e.contents[0].moves, e.contents[1].moves)
		}
	}
	require.Len(t, keys, 15_000, "every event has an id of its own")
	require.Greater(t, len(accounts), 2_000)
	require.Equal(t, 200, twins)
	require.Equal(t, 100, rivals)
	require.Greater(t, sources[stripe], 5_000)
	require.Greater(t, sources[orders], 5_000)
	for _, reason := range []string{"bad_json", "no_event_id", "ambiguous_json", "amount_format", "unmatched", "rule_error", "mode_mismatch"} {
		require.GreaterOrEqual(t, reasons[reason], 30, reason)
	}

	forged, exact, rewritten := 0, 0, 0
	sent := map[*event]map[string]bool{}
	for _, d := range p.deliveries {
		if d.forged {
			forged++
			continue
		}
		if sent[d.event] == nil {
			sent[d.event] = map[string]bool{}
		}
		switch {
		case sent[d.event][string(d.body)]:
			exact++
		case len(sent[d.event]) > 0 && len(d.event.contents) == 1:
			rewritten++
		}
		sent[d.event][string(d.body)] = true
	}
	require.Len(t, sent, 15_000, "every event is sent")
	require.Equal(t, 200, forged)
	require.Greater(t, exact, 1_500)
	require.Greater(t, rewritten, 1_500)
}

func TestRewritingKeepsTheMeaning(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	w := &writer{plan: &plan{customers: 5}, rng: rng}
	for range 100 {
		o := w.order().contents[0].json
		again := o.rewrite(rng)
		require.NotEqual(t, o.write(), again)

		var before, after map[string]any
		require.NoError(t, json.Unmarshal(o.write(), &before))
		require.NoError(t, json.Unmarshal(again, &after))
		require.Contains(t, after, "delivery_attempt")
		delete(after, "delivery_attempt")
		require.Equal(t, before, after)
	}
}

func TestMajorUnits(t *testing.T) {
	t.Parallel()
	require.Equal(t, "0.05", major(5, 2))
	require.Equal(t, "12.50", major(1250, 2))
	require.Equal(t, "1.234", major(1234, 3))
	require.Equal(t, "1234", major(1234, 0))
}

func TestPercentiles(t *testing.T) {
	t.Parallel()
	var acks []time.Duration
	for i := range 200 {
		acks = append(acks, time.Duration(i+1)*time.Millisecond)
	}
	require.InDelta(t, 100, percentile(acks, 50), 0)
	require.InDelta(t, 198, percentile(acks, 99), 0)
	require.InDelta(t, 200, percentile(acks, 100), 0)
	require.InDelta(t, 1, percentile(acks[:1], 50), 0)
	require.Zero(t, percentile(nil, 99))
}
