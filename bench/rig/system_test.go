package rig_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/bench/contender"
	"github.com/onceledger/onceledger/bench/load"
	"github.com/onceledger/onceledger/bench/rig"
	"github.com/onceledger/onceledger/bench/traffic"
)

func TestMain(m *testing.M) {
	rig.Main()
	load.Main()
	os.Exit(m.Run())
}

// backlog is what is waiting before a system starts, some of it twice.
const backlog = 40

// Every system must have posted exactly what it accepted, whatever came twice:
// from its backlog and from requests.
func TestEverySystemPostsEachEventOnce(t *testing.T) {
	profiles := t.TempDir()
	r, err := rig.Start(t.Context(), rig.Options{Small: true, Profile: profiles})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, r.Stop(context.WithoutCancel(t.Context())))
		requireProfiles(t, profiles)
	})
	for _, system := range rig.Systems() {
		t.Run(system.Name(), func(t *testing.T) {
			require.NoError(t, r.Reset(t.Context()))
			require.NoError(t, system.Prepare(t.Context(), r))
			waiting := 0
			if system.Queue() {
				for _, n := range []int{backlog, backlog / 2} { // River refuses two of an event at once
					require.NoError(t, system.Fill(t.Context(), r, traffic.NewCharges("waiting", 1024), traffic.Distinct(n)))
				}
				waiting = backlog
			}
			left, stop, err := system.Watch(t.Context(), r)
			require.NoError(t, err)
			t.Cleanup(stop)
			n, err := left(t.Context())
			require.NoError(t, err)
			require.GreaterOrEqual(t, n, waiting)

			running, err := system.Start(t.Context(), r, contender.Parts{Serve: true, Work: true})
			require.NoError(t, err)
			got, err := load.Run(t.Context(), load.Plan{
				URL: running.URL, Config: r.ConfigPath(), Source: rig.Source,
				Tag: "sent", Size: 1024, Senders: 8, Resends: 0.5, Measure: 300 * time.Millisecond,
			})
			require.NoError(t, err)
			require.Zero(t, got.Failed())
			require.Empty(t, got.Lacking)
			require.Greater(t, got.Accepted, got.Sent, "nothing came twice")
			require.Eventually(t, func() bool {
				n, err := left(t.Context())
				return err == nil && n == 0
			}, 20*time.Second, 20*time.Millisecond)
			require.NoError(t, running.Ended())
			require.NoError(t, running.Stop(t.Context()))

			books, err := system.Recount(t.Context(), r)
			require.NoError(t, err)
			require.Zero(t, books.Unbalanced)
			var want []int
			for _, count := range []int{waiting, got.Sent} {
				want = append(want, traffic.Distinct(count)...)
			}
			numbers := make([]int, len(books.Transfers))
			for i, transfer := range books.Transfers {
				var ok bool
				numbers[i], ok = traffic.Number(transfer.Event)
				require.True(t, ok, transfer.Event)
				require.Equal(t, traffic.Amount(numbers[i]), transfer.Amount)
			}
			slices.Sort(want)
			slices.Sort(numbers)
			require.Equal(t, want, numbers)
		})
	}
}

// requireProfiles finds what programs and statements cost, of every system.
func requireProfiles(t *testing.T, dir string) {
	t.Helper()
	for pattern, least := range map[string]int{
		"*-receiver *.pprof": 2 * 3, "*-worker.pprof": 2, "*-worker.allocs.pprof": 2, "*-worker.block.pprof": 2, "*-statements.txt": len(rig.Systems()),
	} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(found), least, pattern)
		for _, path := range found {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NotEmpty(t, text, path)
			if strings.HasSuffix(pattern, ".txt") && !strings.HasPrefix(filepath.Base(path), "00") { // which is of the start
				require.Contains(t, string(text), "INSERT INTO", path)
			}
		}
	}
}
