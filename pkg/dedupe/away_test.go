package dedupe_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/pkg/dedupe"
)

// Not parallel: the Redis of the other tests is frozen and stopped.
func TestRedisAwayIsUnknownAndLeftAlone(t *testing.T) {
	c := claims(t, stack.RedisURL)
	clock := time.Now()
	c.SetNow(func() time.Time { return clock })
	c.take(t, "mine", "before")

	for outcome, fault := range map[string]struct{ begin, end func() error }{
		"paused":  {stack.Redis.Pause, stack.Redis.Resume},
		"stopped": {func() error { return stack.Redis.Stop(t.Context()) }, func() error { return stack.Redis.Start(t.Context()) }},
	} {
		t.Run(outcome, func(t *testing.T) {
			require.NoError(t, fault.begin())
			skipped := c.seen("skipped")
			quick(t, func(ctx context.Context) {
				clock = clock.Add(time.Second) // it is not left alone any more
				errors := c.seen("error")
				require.Equal(t, []dedupe.Claim{dedupe.Unknown, dedupe.Unknown}, c.Take(ctx, "mine", keys("a", "b")))
				require.Equal(t, errors+2, c.seen("error"))
			})
			require.Equal(t, skipped, c.seen("skipped"))
			require.NoError(t, fault.end())

			// It is back, and nobody asks it before the second is over.
			clock = clock.Add(time.Second - 1)
			require.Equal(t, []dedupe.Claim{dedupe.Unknown}, c.Take(t.Context(), "mine", keys("c")))
			c.Finish(t.Context(), "mine", keys("c"), nil)
			c.Forget(t.Context(), keys("before"))
			require.Equal(t, skipped+3, c.seen("skipped"))
			value, _ := c.value(t, "c")
			require.Empty(t, value)

			eventually(t, func() bool {
				clock = clock.Add(time.Second)
				return c.Take(t.Context(), outcome, keys("c "+outcome))[0] == dedupe.Claimed
			})
		})
	}
}

func TestFinishAndForgetDoNotWaitForRedis(t *testing.T) {
	t.Parallel()
	c := claims(t, silent(t))
	clock := time.Now()
	c.SetNow(func() time.Time { clock = clock.Add(time.Minute); return clock })
	quick(t, func(ctx context.Context) { c.Finish(ctx, "mine", keys("a"), keys("b")) })
	require.Positive(t, c.seen("error"))
	finished := c.seen("error")
	quick(t, func(ctx context.Context) { c.Forget(ctx, keys("a", "b")) })
	require.Greater(t, c.seen("error"), finished)
	quick(t, func(ctx context.Context) { require.NoError(t, c.CheckVersion(ctx)) })
}

func TestACancelledContextEndsTheWait(t *testing.T) {
	t.Parallel()
	c := claims(t, stack.RedisURL)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, []dedupe.Claim{dedupe.Unknown}, c.Take(ctx, "mine", keys("a")))
}

func TestCheckVersion(t *testing.T) {
	t.Parallel()
	for version, old := range map[string]bool{"6.2.14": true, "2.8.0": true, "7.0.0": false, "7.2.4": false, "10.0.1": false, "unstable": false} {
		c := claims(t, impostor(t, version))
		err := c.CheckVersion(t.Context())
		if !old {
			require.NoError(t, err, version)
			continue
		}
		require.ErrorIs(t, err, dedupe.ErrRedisVersion)
		require.ErrorContains(t, err, version)
		require.ErrorContains(t, err, "upgrade")
	}
	require.NoError(t, claims(t, stack.RedisURL).CheckVersion(t.Context()))
	require.NoError(t, claims(t, "redis://127.0.0.1:1/0").CheckVersion(t.Context()))
}

// silent accepts connections and never answers.
func silent(t testing.TB) string {
	t.Helper()
	return serve(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
}

// impostor greets and answers INFO as a Redis of another version.
func impostor(t testing.TB, version string) string {
	t.Helper()
	info := "# Server\r\nredis_version:" + version + "\r\n"
	return serve(t, func(conn net.Conn) {
		r := bufio.NewReader(conn)
		for {
			command, err := request(r)
			switch {
			case err != nil:
				return
			case strings.EqualFold(command[0], "INFO"):
				fmt.Fprintf(conn, "$%d\r\n%s\r\n", len(info), info)
			case strings.EqualFold(command[0], "CLIENT") && strings.EqualFold(command[1], "SETNAME"):
				fmt.Fprintf(conn, "+OK\r\n")
			default: // HELLO and CLIENT SETINFO are younger
				fmt.Fprintf(conn, "-ERR unknown command\r\n")
			}
		}
	})
}

// request reads one command in Redis's protocol.
func request(r *bufio.Reader) ([]string, error) {
	line := func() (string, error) {
		text, err := r.ReadString('\n')
		return strings.TrimSpace(text), err
	}
	head, err := line()
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(strings.TrimPrefix(head, "*"))
	if err != nil {
		return nil, err
	}
	command := make([]string, n)
	for i := range command {
		if _, err := line(); err != nil { // the length; no argument here holds a line break
			return nil, err
		}
		if command[i], err = line(); err != nil {
			return nil, err
		}
	}
	return command, nil
}

// serve runs a server for the length of a test and returns its Redis URL.
func serve(t testing.TB, answer func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var group sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	group.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, conn)
			mu.Unlock()
			group.Go(func() { answer(conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, conn := range open {
			_ = conn.Close()
		}
		mu.Unlock()
		group.Wait()
	})
	return "redis://" + l.Addr().String() + "/0"
}
