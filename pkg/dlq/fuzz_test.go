package dlq

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// wire writes a header as the client does and reads it as another would.
func wire(t *testing.T, h nats.Header) nats.Header {
	t.Helper()
	var b bytes.Buffer
	b.WriteString("NATS/1.0\r\n")
	for name, values := range h {
		require.NotContains(t, name, ":")
		require.Equal(t, -1, strings.IndexFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }), "%q", name)
		for _, value := range values {
			b.WriteString(name + ": " + strings.NewReplacer("\r", " ", "\n", " ").Replace(value) + "\r\n")
		}
	}
	b.WriteString("\r\n")
	read, err := nats.DecodeHeadersMsg(b.Bytes())
	require.NoError(t, err)
	return read
}

// Whatever the parts of a letter are, they come back, and nothing that the event
// brought along means anything to the broker or passes for a part.
func FuzzLetter(f *testing.F) {
	f.Add("stripe", "evt_1", "", "rule_error", "no such key: amount", 3, uint64(42), "ce-id", "evt_1")
	f.Add("日本 *.>", "a\r\nNats-Msg-Id: x\x00", "conflict:00", "_", "é\xff 100% %41 \t", -1, uint64(1<<63), "nats-ttl", "1s")
	f.Add("", "", "", "", strings.Repeat("日", 400), 0, uint64(0), "Onceledger-Reason", "forged")
	f.Add(" ", "%", "%zz", "a b", " x ", 1<<62, uint64(1), "X y:\r\nÉ", "a\r\nb")
	f.Fuzz(func(t *testing.T, source, id, variant, reason, failed string, attempts int, origin uint64, name, value string) {
		l := Letter{
			Source: source, EventID: id, Variant: variant, Reason: Reason(reason), Error: failed, Attempts: attempts,
			FirstSeen: time.Unix(1_700_000_000, int64(origin%1_000_000_000)).UTC(), OriginSeq: origin,
			Header: nats.Header{name: {value}}, Data: []byte(value),
		}
		msg := l.msg()
		require.Regexp(t, `^dlq\.[A-Za-z0-9_-]{1,64}\.[A-Za-z0-9_-]{1,64}$`, msg.Subject)
		for name := range msg.Header {
			require.False(t, ofBroker(name), name)
		}
		have := read(wire(t, msg.Header), msg.Data)
		require.Equal(t, value, string(have.Data))
		require.LessOrEqual(t, len(have.Header), 1)
		require.Equal(t, valid(bounded(failed)), valid(have.Error))
		require.Equal(t, []string{valid(source), valid(id), valid(variant), valid(reason)},
			[]string{valid(have.Source), valid(have.EventID), valid(have.Variant), valid(string(have.Reason))})
		require.Equal(t, []any{attempts, origin, l.FirstSeen}, []any{have.Attempts, have.OriginSeq, have.FirstSeen})
		_ = have.Hint()
	})
}

// valid is text as UTF-8, which is what a header can carry.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// Anybody may write into the stream: what is read of it can be shown, and parked
// and read again without changing any more.
func FuzzRead(f *testing.F) {
	f.Add("NATS/1.0\r\n\r\n", "body")
	f.Add("NATS/1.0 404 No\r\nOnceledger-Reason: %zz\r\nOnceledger-Attempts: many\r\nOnceledger-First-Seen: yesterday\r\n\r\n", "")
	f.Add("NATS/1.0\r\nce-specversion: 1.0\r\nce-id: %\r\nce-source: s\r\nce-type: t\r\nOnceledger-Redrive: 99999999999999999999\r\n\r\n", "{}")
	f.Add("NATS/1.0\r\nX y: 1\r\nX_y: 2\r\nÉ: 3\r\nonceledger-source: x\r\nOnceledger-Error: \xff\r\nNats-Sequence: 7\r\n\r\n", "")
	f.Fuzz(func(t *testing.T, block, data string) {
		header, err := nats.DecodeHeadersMsg([]byte(block))
		if err != nil {
			return
		}
		l := read(header, []byte(data))
		_, _ = l.Hint(), l.EventType()
		if again, err := l.Message(1); err == nil {
			for name := range again.Header {
				require.False(t, ofBroker(name), name)
			}
		}
		first := read(wire(t, l.msg().Header), l.Data)
		second := read(wire(t, first.msg().Header), first.Data)
		require.Equal(t, first.Header, second.Header)
		require.Equal(t, *first, *second)
	})
}
