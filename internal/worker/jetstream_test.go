package worker

import (
	"bytes"
	"context"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/receiver"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/internal/stream/streamtest"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/envelope"
)

// receive runs a receiver in this process until the test ends; send posts an
// event to it as its provider would, and returns the answer's status.
func (s *system) receive() (send func(*envelope.Event) int) {
	s.t.Helper()
	conn, err := stream.Open(s.t.Context(), s.cat.Config.NATS, "receiver", s.log)
	require.NoError(s.t, err)
	web := receiver.NewServer(conn, s.cat, prometheus.NewRegistry(), s.log)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(s.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(ctx, l) }()
	client := &http.Client{Timeout: patience}
	s.t.Cleanup(func() {
		client.CloseIdleConnections()
		cancel()
		require.NoError(s.t, <-ended)
		conn.Close()
	})
	return func(e *envelope.Event) int {
		signed, err := s.cat.Sources["shop"].Sign(e.Data, e.ID, time.Now())
		require.NoError(s.t, err)
		request, err := http.NewRequest(http.MethodPost, "http://"+l.Addr().String()+"/webhooks/shop", bytes.NewReader(e.Data))
		require.NoError(s.t, err)
		request.Header = signed.Header
		response, err := client.Do(request)
		require.NoError(s.t, err)
		require.NoError(s.t, response.Body.Close())
		return response.StatusCode
	}
}

func TestConsumerRemovedUnderTheWorker(t *testing.T) {
	s := newSystem(t, shop)
	var w *worker
	s.start(func(started *worker) { w = started })
	s.payments(0, 100)
	s.settled()
	require.NoError(t, s.js.DeleteConsumer(t.Context(), stream.Events, stream.Consumer))
	s.payments(100, 100)
	s.eventually(func() bool { return s.transfers() == 200 }, "it is made again")
	s.settled()
	s.free()
	// A broker that is slow to answer may be away more than once; each has its end.
	s.eventually(func() bool {
		return s.logged("fetching from EVENTS is back") == s.logged("fetching from EVENTS is unavailable") && !away(w, "events")
	}, "its end shows")
	require.Positive(t, s.logged("fetching from EVENTS is unavailable"))
}

// The stream is lost under a living receiver and a living worker, together with
// an event that was accepted and not applied: its sender sends it again.
func TestStreamLostUnderReceiverAndWorker(t *testing.T) {
	for name, lose := range map[string]func(s *system, backup string){
		"removed": func(s *system, _ string) {
			require.NoError(s.t, s.js.DeleteStream(s.t.Context(), stream.Events))
		},
		"restored empty": func(s *system, _ string) { s.restoreNATS("") },
		"restored older": (*system).restoreNATS,
	} {
		t.Run(name, func(t *testing.T) {
			s := newSystem(t, shop)
			send := s.receive()
			stop := s.start()
			done, lost := payment("evt_done", "p1", "bank", "wallet:1", 5), payment("evt_lost", "p2", "bank", "wallet:1", 7)
			require.Equal(t, http.StatusOK, send(done))
			s.decided("evt_done", dedupe.Completed)
			s.settled()
			stop()
			backup := s.backUpNATS()
			s.eventually(func() bool { return send(lost) == http.StatusOK }, "accepted, and not applied")
			held := make(chan struct{}, 100)
			s.start(func(w *worker) { // holds its delivery while the stream is lost
				w.thinking = func(*envelope.Event) { held <- struct{}{}; s.pass(300 * time.Millisecond) }
			})
			if name == "removed" {
				<-held
			}
			lose(s, backup)
			s.eventually(func() bool { return send(lost) == http.StatusOK }, "the resend is accepted")
			s.eventually(func() bool { return send(done) == http.StatusOK }, "and so is the other")
			s.decided("evt_lost", dedupe.Completed)
			s.settled()
			require.EqualValues(t, 12, s.balance("wallet:1"))
			require.Equal(t, 2, s.transfers())
			// New events get sequences that the old stream had: no answer to one of
			// its deliveries may end theirs.
			for i := range 20 {
				id := fmt.Sprint("evt_", i)
				s.eventually(func() bool { return send(payment(id, "p_"+id, "bank", "wallet:1", 1)) == http.StatusOK }, "it is accepted")
			}
			for i := range 20 {
				s.decided(fmt.Sprint("evt_", i), dedupe.Completed)
			}
			s.free()
		})
	}
}

// backUpNATS copies what the broker has on disk.
func (s *system) backUpNATS() (folder string) {
	s.t.Helper()
	folder = filepath.Join(s.t.TempDir(), "backup")
	s.withoutNATS(func() { require.NoError(s.t, os.CopyFS(folder, os.DirFS(natsFolder()))) })
	return folder
}

// restoreNATS gives the broker what a backup holds, nothing if it is empty.
func (s *system) restoreNATS(backup string) {
	s.t.Helper()
	s.withoutNATS(func() {
		require.NoError(s.t, os.RemoveAll(natsFolder()))
		if backup != "" {
			require.NoError(s.t, os.CopyFS(natsFolder(), os.DirFS(backup)))
		}
	})
}

// withoutNATS does something while the broker is stopped.
func (s *system) withoutNATS(do func()) {
	s.t.Helper()
	require.NoError(s.t, stack.NATS.Stop(s.t.Context()))
	do()
	require.NoError(s.t, stack.NATS.Start(s.t.Context()))
	streamtest.Reach(s.t, s.js)
}

func natsFolder() string { return filepath.Join(stack.Dir(), "nats", "jetstream") }

// The receiver alone, while no worker could make the stream again.
func TestStreamRemovedUnderTheReceiver(t *testing.T) {
	s := newSystem(t, shop)
	send := s.receive()
	e := payment("evt_1", "p1", "bank", "wallet:1", 5)
	require.Equal(t, http.StatusOK, send(e))
	require.Zero(t, s.logged("the stream is gone"))
	require.NoError(t, s.js.DeleteStream(t.Context(), stream.Events))
	s.eventually(func() bool { return s.logged("the stream is gone") > 0 }, "the receiver has looked")
	s.eventually(func() bool { return send(e) == http.StatusOK }, "the resend is accepted")
	events, err := s.js.Stream(t.Context(), stream.Events)
	require.NoError(t, err)
	require.Positive(t, events.CachedInfo().State.Msgs, "and it is there")
}

// An answer names a sequence, and the stream that was made again has it, too.
func TestAnswersOfALostStreamEndNoOtherDelivery(t *testing.T) {
	s := newSystem(t, shop)
	w := newWorker(s.cat, s.log, Tuning{})
	require.NoError(t, w.open(t.Context()))
	defer w.close()
	w.work = t.Context()
	take := func() delivery {
		consumer, err := stream.WorkerConsumer(t.Context(), s.js, time.Minute)
		require.NoError(t, err)
		batch, err := consumer.Fetch(1)
		require.NoError(t, err)
		return delivery{<-batch.Messages(), w.incarnation()}
	}
	s.publish(payment("evt_old", "p1", "bank", "wallet:1", 5))
	old := take()
	require.NoError(t, s.js.DeleteStream(t.Context(), stream.Events))
	require.NoError(t, stream.Ensure(t.Context(), s.js, s.cat.Config.NATS))
	require.NoError(t, w.openEvents(t.Context()))
	s.publish(payment("evt_new", "p2", "bank", "wallet:1", 7))
	current := take() // and its worker dies

	(&loop{w: w, name: "test"}).process(t.Context(), []delivery{old})
	require.NoError(t, w.conn.NC.FlushTimeout(patience))
	require.EqualValues(t, 5, s.balance("wallet:1"), "the old one is applied")
	consumer, err := s.js.Consumer(t.Context(), stream.Events, stream.Consumer)
	require.NoError(t, err)
	require.Equal(t, 1, consumer.CachedInfo().NumAckPending, "the new one still waits for its answer")
	require.NoError(t, current.Nak())
	s.start()
	s.decided("evt_new", dedupe.Completed)
}

// The dead-letter stream is full: what is parked waits, the others go on.
func TestFullDeadLetterStream(t *testing.T) {
	yaml := strings.Replace(shop, "dlq_max_bytes: 64MiB", "dlq_max_bytes: 64KiB", 1)
	s := newSystem(t, yaml)
	var w *worker
	s.start(func(started *worker) { w = started; w.letters.Settle, w.letterDelay = 5*time.Second, 2*time.Second })
	const bad = 300
	for i := range bad {
		id := fmt.Sprint("evt_bad", i)
		s.publish(event(id, fmt.Sprintf(`{"id":%q,"type":"paid"}`, id)))
	}
	s.eventually(func() bool { return away(w, "dlq") }, "it shows")
	began := time.Now()
	s.payments(0, 2000)
	s.eventually(func() bool { return s.transfers() == 2000 }, "the others go on")
	require.Less(t, time.Since(began), bad*parkTimeout/10, "they do not wait for letters")
	waiting := s.count(`SELECT count(*) FROM events WHERE state = 'failed' AND dlq_seq IS NULL`)
	require.Positive(t, waiting, "their rows say that they wait for a letter")

	letters := len(s.letters())
	dead, err := s.js.Stream(t.Context(), stream.DLQ)
	require.NoError(t, err)
	cfg := dead.CachedInfo().Config
	cfg.MaxBytes = 64 << 20
	_, err = s.js.UpdateStream(t.Context(), cfg)
	require.NoError(t, err)
	s.settled()
	require.Zero(t, s.count(`SELECT count(*) FROM events WHERE state = 'failed' AND dlq_seq IS NULL`))
	require.Len(t, s.letters(), bad, "%d were there before", letters)
	require.Equal(t, 1, s.logged("storing in DLQ is unavailable"))
	s.eventually(func() bool { return s.logged("storing in DLQ is back") == 1 && !away(w, "dlq") }, "its end shows")
	require.Zero(t, s.count(`SELECT count(*) FROM events WHERE crashes > 0`))
}

// Two of three servers are lost: the streams have no leader.
func TestWithoutLeader(t *testing.T) {
	nodes, addresses := cluster(t)
	original := stack.Addresses
	stack.Addresses.NATSURL, stack.Addresses.NATSMonitorURL = strings.Join(addresses, ","), ""
	t.Cleanup(func() { stack.Addresses = original })
	s := newSystem(t, strings.Replace(shop, "nats: {", "nats: {replicas: 3, durability: assumed, ", 1))
	send := s.receive()
	var w *worker
	s.start(func(started *worker) { w = started })
	s.eventually(func() bool { return send(payment("evt_1", "p1", "bank", "wallet:1", 5)) == http.StatusOK }, "it is accepted")
	s.decided("evt_1", dedupe.Completed)

	// Servers that elect a leader may be away more than once; each has its end.
	down := func(what string) bool { return s.logged(what+" is unavailable") > s.logged(what+" is back") }
	stored := s.logged("storing in EVENTS is back")
	for _, node := range nodes[:2] {
		node.Shutdown()
		node.WaitForShutdown()
	}
	began := time.Now()
	require.Equal(t, http.StatusServiceUnavailable, send(payment("evt_2", "p2", "bank", "wallet:1", 7)))
	require.Less(t, time.Since(began), 20*time.Second, "before its sender gives up")
	s.eventually(func() bool { return down("storing in EVENTS") && down("fetching from EVENTS") && away(w, "events") }, "it shows")
	require.Equal(t, stored, s.logged("storing in EVENTS is back"), "nothing is stored, though the server that is left may show the stream")
	// A worker that starts now waits: before it works, or for what it fetches, where
	// the server that is left still shows the stream.
	waiting := func() int {
		return s.logged("its streams are not, trying again") + s.logged("fetching from EVENTS is unavailable")
	}
	before := waiting()
	s.start()
	s.eventually(func() bool { return waiting() > before }, "it says for what")
	for i := range nodes[:2] {
		nodes[i] = restarted(t, nodes[i])
	}
	s.eventually(func() bool { return send(payment("evt_2", "p2", "bank", "wallet:1", 7)) == http.StatusOK }, "it is accepted again")
	s.decided("evt_2", dedupe.Completed)
	require.EqualValues(t, 12, s.balance("wallet:1"))
	s.eventually(func() bool { return s.logged("worker started") == 2 }, "the one that waited works, too")
	s.eventually(func() bool { _, err := s.js.Stream(t.Context(), stream.DLQ); return err == nil }, "the other stream has a leader, too")
	s.free()
	s.eventually(func() bool { return !down("storing in EVENTS") && !down("fetching from EVENTS") && !away(w, "events") }, "its end shows")
}

// cluster runs three servers in this process.
func cluster(t *testing.T) (nodes []*server.Server, addresses []string) {
	t.Helper()
	var routes []string
	var ports []int
	for range 3 {
		ports = append(ports, freePort(t))
		routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", ports[len(ports)-1]))
	}
	for i := range 3 {
		node := node(t, &server.Options{
			ServerName: fmt.Sprint("n", i), Host: "127.0.0.1", Port: freePort(t), StoreDir: t.TempDir(), JetStream: true,
			SyncAlways: true, JetStreamMaxStore: 4 << 30, NoLog: true, NoSigs: true, Username: "u", Password: "p",
			Cluster: server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: ports[i]},
			Routes:  server.RoutesFromStr(strings.Join(routes, ",")),
		})
		nodes = append(nodes, node)
		addresses = append(addresses, strings.Replace(node.ClientURL(), "nats://", "nats://u:p@", 1))
	}
	// An election may be begun again and again on a busy machine.
	if !waitFor(5*time.Minute, func() bool {
		return slices.ContainsFunc(nodes, func(node *server.Server) bool { return len(node.JetStreamClusterPeers()) == 3 }) // its leader knows
	}) {
		require.Fail(t, "the cluster does not form", "routes: %d %d %d", nodes[0].NumRoutes(), nodes[1].NumRoutes(), nodes[2].NumRoutes())
	}
	return nodes, addresses
}

func node(t *testing.T, options *server.Options) *server.Server {
	t.Helper()
	s, err := server.NewServer(options)
	require.NoError(t, err)
	s.Start()
	require.True(t, s.ReadyForConnections(patience))
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	started[s] = options
	return s
}

var started = map[*server.Server]*server.Options{}

// restarted starts a server again on its port and its data.
func restarted(t *testing.T, s *server.Server) *server.Server {
	t.Helper()
	return node(t, started[s].Clone())
}

// freePort returns a port that nobody listens on, below those that the system
// gives to clients. One of theirs may be taken before it is listened on: even a
// node that dials a node which is not there yet can get that very port, and then
// talks to itself.
func freePort(t *testing.T) int {
	t.Helper()
	const first, last = 10_000, 30_000
	for {
		port := first + mathrand.IntN(last-first)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			require.NoError(t, l.Close())
			return port
		}
	}
}
