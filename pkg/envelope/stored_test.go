package envelope_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/pkg/envelope"
)

// store is a stream S of a real server of the test's own.
type store struct {
	*server.Server
	nc *nats.Conn
	js jetstream.JetStream
}

func newStore(t *testing.T) *store {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
	})
	require.NoError(t, err)
	s.Start()
	require.True(t, s.ReadyForConnections(20*time.Second))
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	nc, err := nats.Connect(s.ClientURL(), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, AllowDirect: true})
	require.NoError(t, err)
	return &store{s, nc, js}
}

func (s *store) publish(t *testing.T, header nats.Header, data string) {
	t.Helper()
	_, err := s.js.PublishMsg(t.Context(), &nats.Msg{Subject: "s.x", Header: header, Data: []byte(data)})
	require.NoError(t, err)
}

// raw publishes a header block that the client would not write.
func (s *store) raw(t *testing.T, block, data string) {
	t.Helper()
	before := s.last(t)
	conn, err := net.Dial("tcp", s.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err)
	fmt.Fprintf(conn, "CONNECT {\"headers\":true}\r\nHPUB s.x %d %d\r\n%s%s\r\n", len(block), len(block)+len(data), block, data)
	require.Eventually(t, func() bool { return s.last(t) == before+1 }, 20*time.Second, time.Millisecond)
}

func (s *store) last(t *testing.T) uint64 {
	t.Helper()
	opened, err := s.js.Stream(t.Context(), "S")
	require.NoError(t, err)
	return opened.CachedInfo().State.LastSeq
}

// Anybody may publish headers that look like what the broker adds.
func TestReadTakesThePlaceFromTheBrokerAlone(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	began := time.Now()
	liars := []nats.Header{
		nil,
		{"Nats-Sequence": {"1"}, "Nats-Time-Stamp": {"2001-01-01T00:00:00Z"}, "Nats-Subject": {"s.y"}, "Nats-Stream": {"T"}},
		{"Nats-Sequence": {"99", "999"}, "Nats-Num-Pending": {"0"}, "Nats-Last-Sequence": {"77"}},
		{"Nats-Sequence": {"many"}, "Nats-Time-Stamp": {"yesterday"}, "Nats-Num-Pending": {""}},
		{"Status": {"404"}},
		{"Status": {"204"}, "Description": {"EOB"}},
		{"Status": {"503"}},
		{"A": {"b", "c"}},
	}
	for _, header := range liars {
		s.publish(t, header, "")
	}
	s.raw(t, "NATS/1.0 404 Message Not Found\r\n\r\n", "")
	s.raw(t, "NATS/1.0\r\nno header at all\r\n\r\n", "unreadable")
	s.publish(t, nil, "after it")
	s.raw(t, "rubbish\r\n", "at the end")

	all, err := envelope.Read(t.Context(), s.js, "S", envelope.Range{From: 1, Messages: 100})
	require.NoError(t, err)
	require.Len(t, all, len(liars)+4)
	for i, m := range all {
		require.EqualValues(t, i+1, m.Seq)
		if m.Header != nil {
			require.Equal(t, "s.x", m.Subject)
			require.WithinRange(t, m.Time, began.Add(-time.Second), time.Now().Add(time.Second))
		}
		if i < len(liars) {
			require.Len(t, m.Header, len(liars[i]))
			for name, values := range liars[i] {
				require.Equal(t, values, m.Header[name], "it is as it was published")
			}
		}
		one, err := envelope.ReadOne(t.Context(), s.js, "S", m.Seq)
		require.NoError(t, err)
		require.Equal(t, m, one)
	}
	require.Equal(t, "unreadable", string(all[len(liars)+1].Data))
	require.Equal(t, "at the end", string(all[len(all)-1].Data))
}

func TestReadOfARange(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for i := range 10 {
		_, err := s.js.Publish(t.Context(), fmt.Sprint("s.", i%2), make([]byte, 1000))
		require.NoError(t, err)
	}
	opened, err := s.js.Stream(t.Context(), "S")
	require.NoError(t, err)
	require.NoError(t, opened.DeleteMsg(t.Context(), 3))
	sixth, err := envelope.ReadOne(t.Context(), s.js, "S", 6)
	require.NoError(t, err)
	for name, test := range map[string]struct {
		r    envelope.Range
		want []uint64
	}{
		"past gaps":        {envelope.Range{From: 2, Messages: 3}, []uint64{2, 4, 5}},
		"of a subject":     {envelope.Range{From: 2, Messages: 100, Subject: "s.1"}, []uint64{2, 4, 6, 8, 10}},
		"within bytes":     {envelope.Range{From: 1, Messages: 100, Bytes: 1500}, []uint64{1, 2}},
		"since a time":     {envelope.Range{Since: sixth.Time, Messages: 2}, []uint64{6, 7}},
		"behind the end":   {envelope.Range{From: 11, Messages: 100}, nil},
		"of no such thing": {envelope.Range{From: 1, Messages: 100, Subject: "s.2"}, nil},
	} {
		found, err := envelope.Read(t.Context(), s.js, "S", test.r)
		require.NoError(t, err, name)
		var seqs []uint64
		for _, m := range found {
			seqs = append(seqs, m.Seq)
		}
		require.Equal(t, test.want, seqs, name)
	}
	for _, seq := range []uint64{0, 3, 11} {
		_, err := envelope.ReadOne(t.Context(), s.js, "S", seq)
		require.ErrorIs(t, err, envelope.ErrNotStored, seq)
	}
}

// What was not answered is not there, or not known: that must not look alike.
func TestReadWithoutAnAnswerIsAnError(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.publish(t, nil, "x")
	_, err := envelope.Read(t.Context(), s.js, "T", envelope.Range{From: 1, Messages: 10})
	require.ErrorIs(t, err, nats.ErrNoResponders)

	_, err = s.nc.SubscribeSync("silent.DIRECT.GET.S") // hears it, and says nothing
	require.NoError(t, err)
	js, err := jetstream.NewWithAPIPrefix(s.nc, "silent")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = envelope.Read(ctx, js, "S", envelope.Range{From: 1, Messages: 10})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = envelope.ReadOne(ctx, js, "S", 1)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	// It begins to answer, and breaks off.
	breaking, err := s.nc.Subscribe("broken.DIRECT.GET.S", func(asked *nats.Msg) {
		_ = s.nc.PublishMsg(&nats.Msg{Subject: asked.Reply, Header: nats.Header{
			"Nats-Sequence": {"1"}, "Nats-Time-Stamp": {"2024-05-01T10:00:00Z"}, "Nats-Stream": {"S"}, "Nats-Subject": {"s.x"},
			"Nats-Num-Pending": {"9"}, "Nats-Last-Sequence": {"0"},
		}})
	})
	require.NoError(t, err)
	defer func() { _ = breaking.Unsubscribe() }()
	js, err = jetstream.NewWithAPIPrefix(s.nc, "broken")
	require.NoError(t, err)
	ctx, cancel = context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = envelope.Read(ctx, js, "S", envelope.Range{From: 1, Messages: 10})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// A connection that is lost and found again in the midst of an answer leaves a
// hole in it.
func TestReadOfAnAnswerWithAHoleIsAnError(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for range 5 {
		s.publish(t, nil, "x")
	}
	for lost := 1; lost <= 5; lost++ {
		prefix := fmt.Sprint("lossy", lost)
		relay, err := s.nc.Subscribe(prefix+".DIRECT.GET.S", func(asked *nats.Msg) {
			inbox, n := s.nc.NewInbox(), 0
			sub, err := s.nc.Subscribe(inbox, func(answer *nats.Msg) {
				if n++; n == lost {
					return
				}
				answer.Subject, answer.Reply = asked.Reply, ""
				_ = s.nc.PublishMsg(answer)
			})
			if err == nil {
				_ = sub.AutoUnsubscribe(6)
				_ = s.nc.PublishRequest("$JS.API.DIRECT.GET.S", inbox, asked.Data)
			}
		})
		require.NoError(t, err)
		js, err := jetstream.NewWithAPIPrefix(s.nc, prefix)
		require.NoError(t, err)
		_, err = envelope.Read(t.Context(), js, "S", envelope.Range{From: 1, Messages: 10})
		require.ErrorContains(t, err, "a part of the answer is missing", lost)
		require.NoError(t, relay.Unsubscribe())
	}
}
