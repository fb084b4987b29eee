package dlq_test

import (
	"bufio"
	"bytes"
	"fmt"
	"maps"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"github.com/synadia-io/orbit.go/jetstreamext"
	"pgregory.net/rapid"

	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/envelope"
)

func TestALetterComesBackAsItWas(t *testing.T) {
	t.Parallel()
	js := broker(t)
	binary := make([]byte, 256)
	for i := range binary {
		binary[i] = byte(i)
	}
	for outcome, change := range map[string]func(*dlq.Letter){
		"in every part":      func(*dlq.Letter) {},
		"with a binary body": func(l *dlq.Letter) { l.Data = binary },
		"with line breaks":   func(l *dlq.Letter) { l.Data = []byte("\r\n\r\nNATS/1.0\r\nA: b\r\n\r\n") },
		"with a large body":  func(l *dlq.Letter) { l.Data = bytes.Repeat(binary, 4096) },
		"with an empty body": func(l *dlq.Letter) { l.Data = []byte{} },
		"without headers":    func(l *dlq.Letter) { l.Header = nats.Header{} },
		"with odd headers": func(l *dlq.Letter) {
			l.Header = nats.Header{"A": {"é", "", "a: b", "a;b,c", `"q"`, "%41", "\x7f"}, "b-lower": {"x"}, "!#$%&'*+.^_|~": {"x"}}
		},
		"with an odd error":  func(l *dlq.Letter) { l.Error = "é\r\nNats-Msg-Id: x\x00\xff 100% \t" },
		"with odd names":     func(l *dlq.Letter) { l.Source, l.EventID = "日本 *.>", "a\r\nNats-Msg-Id: x\x00" },
		"with blanks around": func(l *dlq.Letter) { l.Error, l.EventID = "  x  ", " y " },
		"with few parts":     func(l *dlq.Letter) { l.Variant, l.Error, l.Attempts, l.OriginSeq = "", "", 0, 0 },
		"of nobody":          func(l *dlq.Letter) { l.Source, l.Reason = "", "" },
		"with large numbers": func(l *dlq.Letter) { l.Attempts, l.OriginSeq = math.MaxInt32, math.MaxUint64 },
	} {
		t.Run(outcome, func(t *testing.T) {
			want := letter()
			change(&want)
			seq := park(t, js, want)
			have, err := dlq.Get(t.Context(), js, seq)
			require.NoError(t, err)
			require.WithinDuration(t, time.Now(), have.Parked, time.Minute)
			require.True(t, bytes.Equal(want.Data, have.Data))
			want.Seq, want.Parked, want.Data = seq, have.Parked, have.Data
			require.Equal(t, &want, have)
			require.Equal(t, []*dlq.Letter{have}, list(t, js, dlq.Filter{From: seq}))
		})
	}
}

func TestAnyTextComesBack(t *testing.T) {
	t.Parallel()
	js := broker(t)
	rapid.Check(t, func(rt *rapid.T) {
		l := letter()
		l.Source, l.EventID = rapid.String().Draw(rt, "source"), rapid.String().Draw(rt, "id")
		l.Error = rapid.String().Filter(func(s string) bool { return len(s) <= 1024 }).Draw(rt, "error")
		l.Reason = dlq.Reason(rapid.String().Draw(rt, "reason"))
		l.Data = rapid.SliceOf(rapid.Byte()).Draw(rt, "data")
		seq, err := dlq.Park(t.Context(), js, l)
		require.NoError(rt, err)
		have, err := dlq.Get(t.Context(), js, seq)
		require.NoError(rt, err)
		require.True(rt, bytes.Equal(l.Data, have.Data))
		l.Seq, l.Parked, l.Data = seq, have.Parked, have.Data
		require.Equal(rt, &l, have)
	})
}

func TestALetterIsReadableInTheBroker(t *testing.T) {
	t.Parallel()
	js := broker(t)
	seq := park(t, js, letter())
	events, err := js.Stream(t.Context(), dlq.Stream)
	require.NoError(t, err)
	msg, err := events.GetMsg(t.Context(), seq)
	require.NoError(t, err)
	require.Equal(t, "dlq.rule_error.stripe", msg.Subject)
	info, _ := dlq.RuleError.Info()
	require.Equal(t, nats.Header{
		"ce-id": {"evt_1"}, "Onceledger-H-X-Two": {"a", "b"}, "Onceledger-Redrive": {"2"},
		"Onceledger-Source": {"stripe"}, "Onceledger-Event-Id": {"evt_1"}, "Onceledger-Variant": {"conflict:00"},
		"Onceledger-Reason": {"rule_error"}, "Onceledger-Error": {"no such key: amount"}, "Onceledger-Hint": {info.Hint},
		"Onceledger-Attempts": {"3"}, "Onceledger-First-Seen": {"2024-05-01T10:00:00.123456789Z"}, "Onceledger-Origin-Seq": {"42"},
	}, stored(msg))
}

// stored is the header without what a direct read adds to it.
func stored(msg *jetstream.RawStreamMsg) nats.Header {
	for _, name := range []string{"Nats-Sequence", "Nats-Stream", "Nats-Subject", "Nats-Time-Stamp"} {
		msg.Header.Del(name)
	}
	return msg.Header
}

// The broker marks the members of an atomic batch, and would take a copy of
// those marks for a part of a batch that does not exist: no ack, nothing stored.
func TestMembersOfAnAtomicBatchAreParked(t *testing.T) {
	t.Parallel()
	js := broker(t)
	var members []*nats.Msg
	var headers []nats.Header
	for _, id := range []string{"first", "middle", "last"} {
		msg, err := (&envelope.Event{Source: "stripe", ID: id, Type: "t", Data: []byte(id)}).Msg()
		require.NoError(t, err)
		headers = append(headers, maps.Clone(msg.Header)) // the batch adds its own
		members = append(members, msg)
	}
	ack, err := jetstreamext.PublishMsgBatch(t.Context(), js, members)
	require.NoError(t, err)
	require.EqualValues(t, 3, ack.BatchSize)

	events, err := js.Stream(t.Context(), "EVENTS")
	require.NoError(t, err)
	for seq := uint64(1); seq <= 3; seq++ {
		stored, err := events.GetMsg(t.Context(), seq)
		require.NoError(t, err)
		require.NotEmpty(t, stored.Header.Get("Nats-Batch-Id"))
		l := letter()
		l.Header, l.Data = stored.Header, stored.Data
		require.Equal(t, seq, park(t, js, l))

		have, err := dlq.Get(t.Context(), js, seq)
		require.NoError(t, err)
		require.Equal(t, headers[seq-1], have.Header)
		require.Equal(t, members[seq-1].Data, have.Data)
	}
}

func TestNoHeaderOfTheBrokerIsCopied(t *testing.T) {
	t.Parallel()
	js := broker(t)
	l := letter()
	l.Header = nats.Header{
		"Nats-Msg-Id": {"x"}, "NATS-TTL": {"1s"}, "nats-rollup": {"all"}, "Nats-Expected-Last-Sequence": {"99"},
		"Nats-Batch-Id": {"b"}, "Nats-Batch-Sequence": {"1"}, "Nats-Batch-Commit": {"1"}, "Nats": {"kept"}, "Natsy-X": {"kept"},
		"Onceledger-Reason": {"forged"}, "Onceledger-Hint": {"forged"},
	}
	require.EqualValues(t, 1, park(t, js, l))
	require.EqualValues(t, 2, park(t, js, l))
	have, err := dlq.Get(t.Context(), js, 2)
	require.NoError(t, err)
	require.Equal(t, nats.Header{"Nats": {"kept"}, "Natsy-X": {"kept"}}, have.Header)
	require.Equal(t, dlq.RuleError, have.Reason)
	require.Len(t, l.Header, 11, "the caller's header is its own")
}

// The client reads header names that it refuses to write.
func TestAMessageOfAnotherClientIsParked(t *testing.T) {
	t.Parallel()
	js := broker(t)
	header := "NATS/1.0\r\nX y: 1\r\nX_y: 2\r\nÉ: 3\r\nX\tz: 4\r\nce-id: é \xff\r\n\r\n"
	publishRaw(t, js.Conn().ConnectedAddr(), "events.s.t", header, "body")
	events, err := js.Stream(t.Context(), "EVENTS")
	require.NoError(t, err)
	consumer, err := events.OrderedConsumer(t.Context(), jetstream.OrderedConsumerConfig{})
	require.NoError(t, err)
	msg, err := consumer.Next()
	require.NoError(t, err)
	require.Contains(t, msg.Headers(), "X y")

	l := letter()
	l.Header, l.Data = msg.Headers(), msg.Data()
	have, err := dlq.Get(t.Context(), js, park(t, js, l))
	require.NoError(t, err)
	require.Equal(t, "body", string(have.Data))
	require.ElementsMatch(t, []string{"1", "2"}, have.Header["X_y"])
	require.Equal(t, "3", have.Header.Get("_"))
	require.Equal(t, "4", have.Header.Get("X_z"))
	require.Equal(t, "é \xff", have.Header.Get("ce-id"))
}

// publishRaw publishes as a client that checks nothing.
func publishRaw(t testing.TB, addr, subject, header, body string) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "CONNECT {\"verbose\":false,\"headers\":true}\r\nHPUB %s %d %d\r\n%s%s\r\nPING\r\n",
		subject, len(header), len(header)+len(body), header, body)
	require.NoError(t, err)
	lines := bufio.NewScanner(conn)
	for lines.Scan() && lines.Text() != "PONG" {
		require.NotContains(t, lines.Text(), "-ERR")
	}
	require.NoError(t, lines.Err())
}

func TestALetterParkedTwiceAtOnceIsStoredOnce(t *testing.T) {
	t.Parallel()
	js := broker(t)
	l := letter()
	l.Once = "1/é 7"
	seq := park(t, js, l)
	require.Equal(t, seq, park(t, js, l))
	l.Once = "1/8"
	require.Equal(t, seq+1, park(t, js, l))
}

// A database that was restored gives names again that letters of what it has
// forgotten had: what was stored under them is no letter of this parking.
func TestARepeatedNameIsNoLetterThatIsGone(t *testing.T) {
	t.Parallel()
	js := broker(t)
	l := letter()
	l.Once = "1/0/0"
	first := park(t, js, l)
	for range 3 {
		require.NoError(t, dlq.Remove(t.Context(), js, first))
		next := park(t, js, l)
		require.Greater(t, next, first)
		require.Equal(t, next, park(t, js, l), "and its repeat finds it")
		have, err := dlq.Get(t.Context(), js, next)
		require.NoError(t, err)
		require.Equal(t, l.Data, have.Data)
		first = next
	}
	for _, change := range []func(*dlq.Letter){
		func(l *dlq.Letter) { l.Reason = dlq.MissingParent },
		func(l *dlq.Letter) { l.EventID = "evt_2" },
		func(l *dlq.Letter) { l.Variant = "" },
		func(l *dlq.Letter) { l.Source = "shop" },
	} {
		other := l
		change(&other)
		seq := park(t, js, other)
		have, err := dlq.Get(t.Context(), js, seq)
		require.NoError(t, err)
		require.Equal(t, []string{string(other.Reason), other.EventID, other.Variant, other.Source}, []string{string(have.Reason), have.EventID, have.Variant, have.Source})
		require.Equal(t, seq, park(t, js, other))
		require.Equal(t, first, park(t, js, l), "the other one stays")
	}
}

func TestTheErrorIsBounded(t *testing.T) {
	t.Parallel()
	js := broker(t)
	l := letter()
	l.Error = "xx" + strings.Repeat("日", 5000) // the bound is inside a character
	have, err := dlq.Get(t.Context(), js, park(t, js, l))
	require.NoError(t, err)
	require.LessOrEqual(t, len(have.Error), 1024+len("…"))
	require.True(t, strings.HasSuffix(have.Error, "日…"))
}

func TestALetterFitsIntoTheRoomLeftForIt(t *testing.T) {
	t.Parallel()
	js := broker(t)
	l := letter()
	l.Header = nats.Header{}
	l.Source, l.EventID = strings.Repeat("日", envelope.MaxSource/3), strings.Repeat("日", envelope.MaxID/3)
	l.Error = strings.Repeat("日", 1000)
	l.Variant, l.Once = "conflict:"+strings.Repeat("f", 32), strings.Repeat("日", 100)
	l.Attempts, l.OriginSeq = math.MaxInt64, math.MaxUint64
	letters, err := js.Stream(t.Context(), dlq.Stream)
	require.NoError(t, err)
	for _, word := range dlq.Reasons() {
		l.Reason, l.Once = dlq.Reason(word), l.Once+"x"
		msg, err := letters.GetMsg(t.Context(), park(t, js, l))
		require.NoError(t, err)
		size := 0
		for name, values := range stored(msg) {
			size += len(name) + len(": \r\n") + len(values[0])
		}
		require.LessOrEqual(t, size, dlq.Room, word)
	}
}

func TestGetOfNoLetter(t *testing.T) {
	t.Parallel()
	js := broker(t)
	_, err := dlq.Get(t.Context(), js, 1)
	require.ErrorIs(t, err, dlq.ErrNotFound)
	require.NoError(t, js.DeleteStream(t.Context(), dlq.Stream))
	_, err = dlq.Get(t.Context(), js, 1)
	require.ErrorIs(t, err, jetstream.ErrStreamNotFound)
	require.ErrorIs(t, dlq.List(t.Context(), js, dlq.Filter{}, nil), jetstream.ErrStreamNotFound)
	_, err = dlq.Park(t.Context(), js, letter())
	require.ErrorContains(t, err, "park event evt_1 of stripe")
}

func TestSubjectIsSafe(t *testing.T) {
	t.Parallel()
	require.Equal(t, "dlq.bad_json.stripe", dlq.Subject(dlq.BadJSON, "stripe"))
	require.Equal(t, "dlq.*.stripe", dlq.Subject("", "stripe"))
	require.Equal(t, "dlq.bad_json.*", dlq.Subject(dlq.BadJSON, ""))
	rapid.Check(t, func(rt *rapid.T) {
		part := rapid.OneOf(rapid.SampledFrom([]string{"a.b", "*", ">", "a b", "é", "\r\n", "日本", "."}), rapid.String()).
			Filter(func(s string) bool { return s != "" })
		subject := dlq.Subject(dlq.Reason(part.Draw(rt, "reason")), part.Draw(rt, "source"))
		require.Regexp(rt, `^dlq\.[A-Za-z0-9_-]{1,64}\.[A-Za-z0-9_-]{1,64}$`, subject)
	})
}
