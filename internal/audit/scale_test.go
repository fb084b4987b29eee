package audit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"github.com/onceledger/onceledger/internal/audit"
	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/postgres"
	"github.com/onceledger/onceledger/internal/stream"
)

const (
	// childConfigEnv makes this test binary a process that audits and prints what
	// it found; manyEnv is how many events TestManyEvents has.
	childConfigEnv = "ONCELEDGER_TEST_CHILD_CONFIG"
	manyEnv        = "ONCELEDGER_TEST_AUDIT"
	// mostMemory is what an audit may take, however many events there are.
	mostMemory = 256 << 20
)

func runChild() int {
	err := func() error {
		ctx := context.Background()
		cat, err := catalog.Load(os.Getenv(childConfigEnv), os.LookupEnv)
		if err != nil {
			return err
		}
		pool, err := postgres.Open(ctx, cat.Config.Database.URL.Reveal(), postgres.Worker)
		if err != nil {
			return err
		}
		defer pool.Close()
		conn, err := stream.Open(ctx, cat.Config.NATS, "test", zerolog.Nop())
		if err != nil {
			return err
		}
		defer conn.Close()
		report, err := audit.Run(ctx, audit.Options{JS: conn.JS, Pool: pool, Meaning: audit.Meaning(cat)})
		return errors.Join(err, json.NewEncoder(os.Stdout).Encode(report))
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// TestManyEvents audits as many as the environment says, in a process of its
// own, for its memory.
func TestManyEvents(t *testing.T) {
	n := 20_000
	if text := os.Getenv(manyEnv); text != "" {
		var err error
		n, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	s := newSystem(t, strings.Replace(shop, "events_max_bytes: 256MiB", "events_max_bytes: 4GiB", 1))
	s.publishMany(n)
	began := time.Now()
	stops := []func(){s.work(), s.work()}
	require.Eventually(t, func() bool {
		consumer, err := s.js.Consumer(t.Context(), stream.Events, stream.Consumer)
		return err == nil && consumer.CachedInfo().AckFloor.Stream == uint64(n)
	}, time.Hour, 100*time.Millisecond)
	t.Logf("%d events decided in %.1f s", n, time.Since(began).Seconds())
	for _, stop := range stops {
		stop()
	}

	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childConfigEnv+"="+s.cat.Config.File, "DATABASE_URL="+s.pool.Config().ConnString(),
		"NATS_URL="+stack.NATSURL, "NATS_MONITOR_URL="+stack.NATSMonitorURL)
	var failed strings.Builder
	cmd.Stderr = io.Writer(&failed)
	out, err := cmd.Output()
	require.NoError(t, err, failed.String())
	var report audit.Report
	require.NoError(t, json.Unmarshal(out, &report))
	memory := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
	t.Logf("%d events audited in %.1f s, with at most %d MiB", n, report.Seconds, memory>>20)
	require.Empty(t, report.Findings)
	require.Equal(t, audit.Sum{Messages: n, Applied: n}, report.Sum)
	require.Less(t, memory, int64(mostMemory))
	require.Less(t, report.Seconds, 60.0)
}

// publishMany stores n payments between many accounts.
func (s *system) publishMany(n int) {
	s.t.Helper()
	const most = 1000
	for first := 0; first < n; first += most {
		batch := make([]*nats.Msg, min(n-first, most))
		for i := range batch {
			id := fmt.Sprintf("evt_%08d", first+i)
			var err error
			batch[i], err = event(id, "paid", fmt.Sprintf(`{"id":%q,"type":"paid","payment":"p_%s","from":"shop:due","to":"purse:%d","amount":%d,"asset":"EUR"}`,
				id, id, (first+i)%10_000, 100+i)).Msg()
			require.NoError(s.t, err)
		}
		_, err := jetstreamext.PublishMsgBatch(s.t.Context(), s.js, batch)
		require.NoError(s.t, err)
	}
}
