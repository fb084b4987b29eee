package fault

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/faultpoint"
)

func TestSameSeedSamePlan(t *testing.T) {
	o := Options{Length: 30 * time.Minute, Receivers: 2, Workers: 3}
	require.Equal(t, NewPlan(7, o), NewPlan(7, o))
	require.NotEqual(t, NewPlan(7, o), NewPlan(8, o))
}

// Half an hour has every kind of harm to every component, at every point.
func TestPlanHasEverything(t *testing.T) {
	for name, o := range map[string]Options{
		"mixed":   {},
		"cluster": {Cluster: true},
		"restore": {Restore: true},
	} {
		t.Run(name, func(t *testing.T) {
			o.Length, o.Receivers, o.Workers = 30*time.Minute, 2, 3
			kinds, points, killed := map[Kind]bool{}, map[string]bool{}, map[string]bool{}
			last := time.Duration(0)
			for _, f := range NewPlan(7, o) {
				require.GreaterOrEqual(t, f.At, last, "in order")
				require.Less(t, f.At, o.Length)
				last = f.At
				kinds[f.Kind], points[f.Point] = true, true
				if f.Kind == Kill || f.Kind == Leader {
					killed[component(f.Target)] = true
				}
			}
			for _, k := range []Kind{Kill, KillAt, Freeze, FreezeAt, Restart, Cut, Delay, Swallow, Flush, Snapshot, Rollback, Redrive, Deadly} {
				require.True(t, kinds[k], k)
			}
			require.Equal(t, o.Cluster, kinds[Leader])
			require.Equal(t, o.Restore, kinds[Backup] && kinds[Restore])
			for _, list := range faultpoint.All {
				for _, point := range list {
					require.True(t, points[point], point)
				}
			}
			for _, component := range []string{"receiver", "worker", "nats", "postgres", "redis"} {
				require.True(t, killed[component], component)
			}
		})
	}
}

// Harm that is asked for is in every plan, however short, beside what is drawn.
func TestPlanHasWhatIsCertain(t *testing.T) {
	certain := []Fault{{Kind: Kill, Target: "nats", For: time.Second}, {Kind: KillAt, Target: "worker-2", Point: faultpoint.Claimed}}
	o := Options{Length: 30 * time.Second, Receivers: 2, Workers: 3}
	drawn := NewPlan(7, o)
	o.Certain = certain
	plan := NewPlan(7, o)
	require.Len(t, plan, len(drawn)+2)
	certain[0].At, certain[1].At = 10*time.Second, 20*time.Second
	certain[0].Certain, certain[1].Certain = true, true
	require.Subset(t, plan, certain)
	require.Subset(t, plan, drawn)
	require.True(t, slices.IsSortedFunc(plan, func(a, b Fault) int { return cmp.Compare(a.At, b.At) }))
}
