package measure

import (
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/bench/load"
	"github.com/onceledger/onceledger/bench/rig"
)

func TestExplainFindsWhatWasLostDoubledOrMovedWrongly(t *testing.T) {
	t.Parallel()
	want := load.Events{Applied: 10, Conflicts: 2, Least: 100, Most: 104}
	fine := rig.Ledger{Applied: 10, Others: 2, Transfers: 10, Amount: 102}
	for name, test := range map[string]struct {
		failed  int
		change  func(*rig.Ledger)
		letters int
		ok      bool
	}{
		"all there":                         {0, func(*rig.Ledger) {}, 2, true},
		"one lost":                          {0, func(l *rig.Ledger) { l.Applied, l.Transfers = 9, 9 }, 2, false},
		"one doubled":                       {0, func(l *rig.Ledger) { l.Transfers = 11 }, 2, false},
		"one too many":                      {0, func(l *rig.Ledger) { l.Applied, l.Transfers = 11, 11 }, 2, false},
		"one that failed is there":          {1, func(l *rig.Ledger) { l.Applied, l.Transfers, l.Amount = 11, 11, 999 }, 2, true},
		"a conflict without its letter":     {0, func(l *rig.Ledger) { l.Others = 1 }, 1, false},
		"a letter without its event":        {0, func(*rig.Ledger) {}, 3, false},
		"a letter of one that failed":       {1, func(l *rig.Ledger) { l.Others = 3 }, 3, true},
		"two letters of one event":          {1, func(*rig.Ledger) {}, 3, false},
		"one parked that should be applied": {0, func(l *rig.Ledger) { l.Others = 3 }, 3, false},
		"too little money":                  {0, func(l *rig.Ledger) { l.Amount = 99 }, 2, false},
		"too much money":                    {0, func(l *rig.Ledger) { l.Amount = 105 }, 2, false},
		"an account that does not add up":   {0, func(l *rig.Ledger) { l.Unbalanced = 1 }, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := fine
			test.change(&got)
			err := explain(want, test.failed, got, test.letters)
			if test.ok {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, ErrMismatch)
			}
		})
	}
}

func TestQuantilesGoAsFarAsThereAreValues(t *testing.T) {
	t.Parallel()
	h := hdrhistogram.New(1, 60_000_000, 3)
	for i := range 1000 {
		require.NoError(t, h.RecordValue(int64(1000*(i+1))))
	}
	found := quantiles(h)
	require.InDelta(t, 1, found[0].MS, 0.01)
	last := found[len(found)-1]
	require.InDelta(t, 99.9, last.Percentile, 0.0001)
	require.InEpsilon(t, 999, last.MS, 0.002)
	for i := range found[1:] {
		require.Greater(t, found[i+1].Percentile, found[i].Percentile)
		require.GreaterOrEqual(t, found[i+1].MS, found[i].MS)
	}
}

func TestRatiosOfThePathCompareWhatBelongsTogether(t *testing.T) {
	t.Parallel()
	result := &Result{
		Size: Size{Judge: true},
		Open: []OpenCell{
			{Name: "closed loop, 256 senders", EventsPerSecond: 5},
			{Name: "closed loop, 1000 senders", EventsPerSecond: 10},
			{Name: ClosedStorm, Resends: 0.5, EventsPerSecond: 5},
			{Name: "500/s", Offered: 500, EventsPerSecond: 500},
		},
		Growth: []BacklogCell{
			{IDs: Ordered, EventsPerSecond: 100}, {IDs: Random, EventsPerSecond: 50},
			{Rows: 1_000_000, IDs: Random, EventsPerSecond: 20},
			{Rows: 10_000_000, IDs: Ordered, EventsPerSecond: 75}, {Rows: 10_000_000, IDs: Random, EventsPerSecond: 25},
		},
	}
	verdicts := map[string]string{}
	for _, r := range pathRatios(result) {
		verdicts[r.Name] = r.Verdict()
	}
	require.Equal(t, map[string]string{
		"whole path, distinct events: half of all deliveries resends / none": "BELOW",
		"worker, ids random: 1 million events there / none":                  "",
		"worker, ids in order: 10 million events there / none":               "OK",
		"worker, ids random: 10 million events there / none":                 "BELOW",
	}, verdicts)
}

func TestOnlyOnePartIsPlannedIfAsked(t *testing.T) {
	t.Parallel()
	parts, err := (&session{Options: Options{Size: Full, Only: PartGrowth}}).parts(&Result{})
	require.NoError(t, err)
	require.Len(t, parts, 1)
	require.Equal(t, PartGrowth, parts[0].name)
	_, err = (&session{Options: Options{Only: "everything"}}).parts(&Result{})
	require.ErrorContains(t, err, `"everything" is not one of receiver, worker`)
}

// The sizes keep what the commands promise: what is planned is less than that, since
// machines are slower than they should be.
func TestTheSizesFitIntoTheirTime(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		size Size
		most time.Duration
	}{"smoke": {Smoke, 90 * time.Second}, "short": {Short, 5 * time.Minute}, "full": {Full, time.Hour}} {
		parts, err := (&session{Options: Options{Size: test.size}}).parts(&Result{})
		require.NoError(t, err)
		var sum time.Duration
		for _, p := range parts {
			require.Positive(t, p.estimate, "%s of %s", p.name, name)
			sum += p.estimate
		}
		require.Less(t, sum, test.most, name)
	}
}
