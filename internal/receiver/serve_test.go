package receiver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/onceledger/onceledger/internal/stream"
)

func TestDrainLosesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(s *Server) { s.limits.read, s.limits.write, s.limits.drain = patience, patience, patience })
	at, err := url.Parse(r.url)
	require.NoError(t, err)

	// One request is half sent when the stop comes.
	body := stripe("evt_half")
	req := r.request(body)
	slow, err := net.Dial("tcp", at.Host)
	require.NoError(t, err)
	defer slow.Close()
	require.NoError(t, slow.SetDeadline(time.Now().Add(patience)))
	_, err = fmt.Fprintf(slow, "POST %s HTTP/1.1\r\nHost: x\r\nStripe-Signature: %s\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n",
		at.Path, req.Header.Get("Stripe-Signature"), len(body))
	require.NoError(t, err)
	_, err = io.ReadFull(slow, make([]byte, len("HTTP/1.1 100 Continue\r\n\r\n"))) // the handler reads
	require.NoError(t, err)

	// Others are sent all the while.
	acked := make([][]string, 32)
	var group errgroup.Group
	for i := range acked {
		group.Go(func() error {
			for j := 0; ; j++ {
				id := fmt.Sprintf("evt_%d_%d", i, j)
				got, err := r.do(r.request(stripe(id)))
				if err != nil {
					return nil //nolint:nilerr // the listener is closed
				}
				if got.status == http.StatusOK {
					acked[i] = append(acked[i], id)
				}
			}
		})
	}
	stored := r.watch(func(what any) bool { c, ok := what.(committed); return ok && c.size > 1 })
	<-stored
	stopped := make(chan error, 1)
	go func() { stopped <- r.stop() }()
	require.NoError(t, group.Wait())
	require.ErrorIs(t, r.server.Ready(t.Context()), errDraining)

	_, err = io.WriteString(slow, body)
	require.NoError(t, err)
	answer, err := io.ReadAll(slow)
	require.NoError(t, err)
	require.Contains(t, string(answer), "HTTP/1.1 200 ")
	require.NoError(t, <-stopped)

	counts, total := r.ids(), 0
	for _, ids := range acked {
		total += len(ids)
		for _, id := range ids {
			require.Equal(t, 1, counts[id], id)
		}
	}
	require.Positive(t, total)
	require.Equal(t, 1, counts["evt_half"])
}

func TestDrainHasALimit(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(s *Server) { s.limits.drain = 100 * time.Millisecond })
	at, err := url.Parse(r.url)
	require.NoError(t, err)
	slow, err := net.Dial("tcp", at.Host)
	require.NoError(t, err)
	defer slow.Close()
	_, err = fmt.Fprintf(slow, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n", at.Path)
	require.NoError(t, err)
	_, err = io.ReadFull(slow, make([]byte, len("HTTP/1.1 100 Continue\r\n\r\n")))
	require.NoError(t, err)
	require.ErrorIs(t, r.server.drainNow(r), context.DeadlineExceeded)
}

// drainNow stops r and keeps the rig's clean-up from failing for the same reason.
func (s *Server) drainNow(r *rig) error {
	err := r.stop()
	r.stop = func() error { return nil }
	return err
}

// free returns an address nobody listens on, below the ports that the system gives
// to clients: one of those may be taken by whoever dials it before it is listened on.
func free(t *testing.T) string {
	t.Helper()
	for {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(10_000)))
		if err == nil {
			require.NoError(t, l.Close())
			return l.Addr().String()
		}
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	broker := ownStack(t)
	base := newRigOn(t, broker.Addresses) // for its catalog and its signatures
	base.remove()                         // its subjects are within EVENTS'
	get := func(url string) (int, string) {
		res, err := base.client.Get(url)
		if err != nil {
			return 0, err.Error()
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(text)
	}

	t.Run("serves, says it is ready, counts, and drains", func(t *testing.T) {
		cat := *base.cat
		cfg := *cat.Config
		cat.Config = &cfg
		cfg.Receiver.Listen, cfg.Receiver.Admin = free(t), free(t)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- Run(ctx, &cat, zerolog.Nop()) }()
		require.Eventually(t, func() bool {
			status, _ := get("http://" + cfg.Receiver.Admin + "/readyz")
			return status == http.StatusOK
		},
			patience, 10*time.Millisecond)

		base.url = "http://" + cfg.Receiver.Listen + "/webhooks/" + base.name
		require.Equal(t, http.StatusOK, base.send(stripe("evt_run")))
		_, metrics := get("http://" + cfg.Receiver.Admin + "/metrics")
		for _, line := range []string{
			`onceledger_receiver_deliveries_total{outcome="accepted",source="` + base.name + `"} 1`,
			`onceledger_receiver_ack_seconds_count{source="` + base.name + `"} 1`,
			`onceledger_receiver_batch_messages_count 1`,
			`onceledger_receiver_queue_messages 0`,
			`onceledger_receiver_stream_connected 1`,
			`onceledger_receiver_stream_durability{proof="verified"} 1`,
		} {
			require.Contains(t, metrics, line)
		}
		s, err := base.conn.JS.Stream(t.Context(), stream.Events)
		require.NoError(t, err)
		require.Equal(t, uint64(1), s.CachedInfo().State.Msgs)
		cancel()
		require.NoError(t, <-done)
		base.client.CloseIdleConnections()
	})
	t.Run("refuses a stream with other settings and an address in use", func(t *testing.T) {
		cat := *base.cat
		cfg := *cat.Config
		cat.Config = &cfg
		cfg.Receiver.Listen, cfg.Receiver.Admin = free(t), free(t)
		cfg.NATS.EventsMaxBytes++
		require.ErrorIs(t, Run(t.Context(), &cat, zerolog.Nop()), stream.ErrSettings)
		cfg.NATS.EventsMaxBytes--

		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer l.Close()
		cfg.Receiver.Listen = l.Addr().String()
		require.ErrorContains(t, Run(t.Context(), &cat, zerolog.Nop()), "listen for webhooks")
		cfg.Receiver.Listen, cfg.Receiver.Admin = free(t), l.Addr().String()
		require.ErrorContains(t, Run(t.Context(), &cat, zerolog.Nop()), "listen on admin address")
	})
	t.Run("waits for a broker that is away, is not ready meanwhile, and may be stopped", func(t *testing.T) {
		cat := *base.cat
		cfg := *cat.Config
		cat.Config = &cfg
		cfg.NATS.URL, cfg.NATS.MonitorURL = "nats://"+free(t), ""
		cfg.Receiver.Listen, cfg.Receiver.Admin = free(t), free(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error, 1)
		go func() { done <- Run(ctx, &cat, zerolog.Nop()) }()
		require.Eventually(t, func() bool {
			status, text := get("http://" + cfg.Receiver.Admin + "/readyz")
			return status == http.StatusServiceUnavailable && strings.Contains(text, "starting")
		}, patience, 10*time.Millisecond)
		status, _ := get("http://" + cfg.Receiver.Admin + "/healthz")
		require.Equal(t, http.StatusOK, status)
		cancel(errors.New("stop"))
		require.NoError(t, <-done)
		base.client.CloseIdleConnections()
	})
	_, err := base.conn.JS.Stream(t.Context(), base.streamName())
	require.ErrorIs(t, err, jetstream.ErrStreamNotFound)
}
