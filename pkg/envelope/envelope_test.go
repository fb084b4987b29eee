package envelope_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/onceledger/onceledger/pkg/envelope"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sample is an event with every part set.
func sample() *envelope.Event {
	return &envelope.Event{
		Source:      "stripe",
		ID:          "evt_1",
		Type:        "charge.succeeded",
		Time:        time.Date(2024, 5, 1, 10, 0, 0, 120_000_000, time.UTC),
		ContentType: "application/json; charset=utf-8",
		Account:     "acct_1",
		Mode:        "live",
		Fault:       "bad_json",
		Hint:        "generated/1",
		Redrive:     2,
		TraceParent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		Header:      map[string]string{"X-Github-Event": "push", "X-Empty": ""},
		Data:        []byte("{\"id\":\"evt_1\"}\r\n"),
	}
}

// odd are texts with a meaning to somebody on the way.
var odd = []string{
	"a/b", "a b", " a ", "a.b.*.>", "a\r\nNats-Msg-Id: x", "日本", "\u00e9", "e\u0301",
	"100%", "%41", `"q"`, "\t", "\x7f", "🎉", "evt_1", strings.Repeat("x", 128),
}

func TestMsgWritesReadableHeaders(t *testing.T) {
	t.Parallel()
	msg, err := sample().Msg()
	require.NoError(t, err)
	require.Equal(t, "events.stripe.charge.succeeded", msg.Subject)
	require.Equal(t, nats.Header{
		"ce-specversion":              {"1.0"},
		"ce-id":                       {"evt_1"},
		"ce-source":                   {"stripe"},
		"ce-type":                     {"charge.succeeded"},
		"ce-time":                     {"2024-05-01T10:00:00.12Z"},
		"ce-account":                  {"acct_1"},
		"ce-mode":                     {"live"},
		"ce-fault":                    {"bad_json"},
		"ce-hint":                     {"generated/1"},
		"content-type":                {"application/json; charset=utf-8"},
		"traceparent":                 {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
		"Onceledger-Redrive":          {"2"},
		"Onceledger-H-X-Github-Event": {"push"},
		"Onceledger-H-X-Empty":        {""},
	}, msg.Header)
	require.Equal(t, sample().Data, msg.Data)
}

func TestMsgLeavesOutEmptyParts(t *testing.T) {
	t.Parallel()
	msg, err := (&envelope.Event{Source: "s", ID: "1"}).Msg()
	require.NoError(t, err)
	require.Equal(t, nats.Header{
		"ce-specversion": {"1.0"}, "ce-id": {"1"}, "ce-source": {"s"}, "ce-type": {"onceledger.untyped"},
	}, msg.Header)
}

func TestMsgPercentEncodesAsTheBindingSays(t *testing.T) {
	t.Parallel()
	event := &envelope.Event{Source: "s", ID: "Euro € \"100%\" 😀\r\n~!"}
	msg, err := event.Msg()
	require.NoError(t, err)
	require.Equal(t, "Euro%20%E2%82%AC%20%22100%25%22%20%F0%9F%98%80%0D%0A~!", msg.Header.Get("ce-id"))
}

func TestMsgRefusesWhatCannotTravel(t *testing.T) {
	t.Parallel()
	long := func(n int) string { return strings.Repeat("x", n+1) }
	for name, spoil := range map[string]func(*envelope.Event){
		"no id":             func(e *envelope.Event) { e.ID = "" },
		"no source":         func(e *envelope.Event) { e.Source = "" },
		"NUL in id":         func(e *envelope.Event) { e.ID = "a\x00b" },
		"id not UTF-8":      func(e *envelope.Event) { e.ID = "a\xff" },
		"long id":           func(e *envelope.Event) { e.ID = long(envelope.MaxID) },
		"long source":       func(e *envelope.Event) { e.Source = long(envelope.MaxSource) },
		"long type":         func(e *envelope.Event) { e.Type = long(envelope.MaxType) },
		"long account":      func(e *envelope.Event) { e.Account = long(envelope.MaxAccount) },
		"long mode":         func(e *envelope.Event) { e.Mode = long(envelope.MaxMode) },
		"long fault":        func(e *envelope.Event) { e.Fault = long(envelope.MaxFault) },
		"long hint":         func(e *envelope.Event) { e.Hint = long(envelope.MaxID) },
		"long content type": func(e *envelope.Event) { e.ContentType = long(envelope.MaxContentType) },
		"long trace":        func(e *envelope.Event) { e.TraceParent = long(envelope.MaxTraceParent) },
		"time out of range": func(e *envelope.Event) { e.Time = time.Date(12024, 1, 1, 0, 0, 0, 0, time.UTC) },
		"negative redrive":  func(e *envelope.Event) { e.Redrive = -1 },
		"header injection":  func(e *envelope.Event) { e.Header = map[string]string{"X: y\r\nNats-Msg-Id": "x"} },
		"header lower case": func(e *envelope.Event) { e.Header = map[string]string{"x-id": "x"} },
		"header empty name": func(e *envelope.Event) { e.Header = map[string]string{"": "x"} },
		"long header":       func(e *envelope.Event) { e.Header = map[string]string{"X": long(envelope.MaxHeaderValue)} },
		"header with NUL":   func(e *envelope.Event) { e.Header = map[string]string{"X": "\x00"} },
		"too many headers": func(e *envelope.Event) {
			for c := range envelope.MaxHeaders {
				e.Header["X-"+string(rune('A'+c))] = "x"
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			event := sample()
			spoil(event)
			_, err := event.Msg()
			require.ErrorIs(t, err, envelope.ErrInvalid)
		})
	}
}

func TestDecodeRefusesWhatMsgDoesNotWrite(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(nats.Header){
		"no version":         func(h nats.Header) { h.Del("ce-specversion") },
		"another version":    func(h nats.Header) { h.Set("ce-specversion", "0.3") },
		"no id":              func(h nats.Header) { h.Del("ce-id") },
		"empty id":           func(h nats.Header) { h.Set("ce-id", "") },
		"two ids":            func(h nats.Header) { h.Add("ce-id", "evt_2") },
		"id under CE-ID":     func(h nats.Header) { h.Del("ce-id"); h.Set("CE-ID", "evt_1") },
		"no source":          func(h nats.Header) { h.Del("ce-source") },
		"raw unicode":        func(h nats.Header) { h.Set("ce-id", "é") },
		"control character":  func(h nats.Header) { h.Set("ce-id", "a\tb") },
		"cut escape":         func(h nats.Header) { h.Set("ce-id", "a%4") },
		"escape without hex": func(h nats.Header) { h.Set("ce-id", "%zz") },
		"encoded NUL":        func(h nats.Header) { h.Set("ce-id", "a%00") },
		"encoded non-UTF-8":  func(h nats.Header) { h.Set("ce-id", "%FF") },
		"bad time":           func(h nats.Header) { h.Set("ce-time", "yesterday") },
		"redrive zero":       func(h nats.Header) { h.Set("Onceledger-Redrive", "0") },
		"redrive signed":     func(h nats.Header) { h.Set("Onceledger-Redrive", "+1") },
		"kept lower case":    func(h nats.Header) { h.Set("Onceledger-H-x", "1") },
	} {
		t.Run(name, func(t *testing.T) {
			msg, err := sample().Msg()
			require.NoError(t, err)
			spoil(msg.Header)
			_, err = envelope.Decode(msg.Header, msg.Data)
			require.ErrorIs(t, err, envelope.ErrInvalid)
		})
	}
}

func TestDecodeIgnoresHeadersOfOthers(t *testing.T) {
	t.Parallel()
	msg, err := sample().Msg()
	require.NoError(t, err)
	msg.Header.Set("Nats-Batch-Id", "b")
	msg.Header.Set("ce-extension", "é")
	got, err := envelope.Decode(msg.Header, msg.Data)
	require.NoError(t, err)
	require.Equal(t, sample(), got)
}

func TestDecodeIsTheInverseOfMsg(t *testing.T) {
	t.Parallel()
	text := func(limit int) *rapid.Generator[string] {
		return rapid.OneOf(rapid.SampledFrom(odd), rapid.String()).Filter(func(s string) bool {
			return envelope.Storable(s, limit)
		})
	}
	filled := func(limit int) *rapid.Generator[string] {
		return text(limit).Filter(func(s string) bool { return s != "" })
	}
	headers := rapid.MapOfN(rapid.StringMatching(`X-[A-Z][a-z0-9]{0,8}`), text(envelope.MaxHeaderValue), 1, 4)

	rapid.Check(t, func(t *rapid.T) {
		event := &envelope.Event{
			Source:      filled(envelope.MaxSource).Draw(t, "source"),
			ID:          filled(envelope.MaxID).Draw(t, "id"),
			Type:        text(envelope.MaxType).Draw(t, "type"),
			ContentType: text(envelope.MaxContentType).Draw(t, "content type"),
			Account:     text(envelope.MaxAccount).Draw(t, "account"),
			Mode:        text(envelope.MaxMode).Draw(t, "mode"),
			Fault:       text(envelope.MaxFault).Draw(t, "fault"),
			Hint:        text(envelope.MaxID).Draw(t, "hint"),
			TraceParent: text(envelope.MaxTraceParent).Draw(t, "trace"),
			Redrive:     rapid.IntRange(0, 1<<40).Draw(t, "redrive"),
			Time:        time.Unix(rapid.Int64Range(-1<<35, 1<<37).Draw(t, "time"), 5).UTC(),
			Data:        rapid.SliceOf(rapid.Byte()).Draw(t, "data"),
		}
		if rapid.Bool().Draw(t, "with headers") {
			event.Header = headers.Draw(t, "headers")
		}
		msg, err := event.Msg()
		require.NoError(t, err)
		for name, values := range msg.Header {
			require.Len(t, values, 1)
			require.False(t, strings.HasPrefix(strings.ToLower(name), "nats-"), name)
			require.NotContains(t, values[0], "\n")
		}
		got, err := envelope.Decode(msg.Header, msg.Data)
		require.NoError(t, err)
		require.Equal(t, event, got)
	})
}

func TestOddTextsSurviveTheBroker(t *testing.T) {
	t.Parallel()
	conn := connect(t)
	sub, err := conn.SubscribeSync("events.>")
	require.NoError(t, err)

	for _, text := range odd {
		event := sample()
		event.ID, event.Type, event.Account, event.ContentType = text, text, text, text
		event.Header["X-Github-Event"] = text
		msg, err := event.Msg()
		require.NoError(t, err)
		require.NoError(t, conn.PublishMsg(msg))

		stored, err := sub.NextMsg(10 * time.Second)
		require.NoError(t, err)
		require.Empty(t, stored.Header.Get("Nats-Msg-Id"))
		got, err := envelope.Decode(stored.Header, stored.Data)
		require.NoError(t, err)
		require.Equal(t, event, got)
		require.Equal(t, envelope.EncodedSize(msg), envelope.EncodedSize(stored), text)
	}
}

func TestEncodedSizeIsWhatTheServerCounts(t *testing.T) {
	t.Parallel()
	conn := connect(t)
	event := sample()
	msg, err := event.Msg()
	require.NoError(t, err)

	event.Data = make([]byte, int(conn.MaxPayload())-envelope.EncodedSize(msg)+len(msg.Data))
	msg, err = event.Msg()
	require.NoError(t, err)
	require.EqualValues(t, conn.MaxPayload(), envelope.EncodedSize(msg))
	require.NoError(t, conn.PublishMsg(msg))

	msg.Data = append(msg.Data, 'x')
	require.ErrorIs(t, conn.PublishMsg(msg), nats.ErrMaxPayload)
}

func TestGeneratedIDsDiffer(t *testing.T) {
	t.Parallel()
	require.NotEqual(t, envelope.GeneratedID(), envelope.GeneratedID())
	require.Regexp(t, `^generated/[0-9a-f]{32}$`, envelope.GeneratedID())
}

// connect starts a server for one test and connects to it.
func connect(t *testing.T) *nats.Conn {
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true})
	require.NoError(t, err)
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	require.True(t, srv.ReadyForConnections(10*time.Second))

	conn, err := nats.Connect(srv.ClientURL())
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return conn
}

func FuzzDecode(f *testing.F) {
	for _, text := range odd {
		f.Add(text, text, "2024-05-01T10:00:00Z", "1", text)
	}
	f.Add("a%2", "%", "", "", "%00")
	f.Fuzz(func(t *testing.T, id, typ, at, redrive, kept string) {
		h := nats.Header{
			envelope.HeaderSpecVersion: {"1.0"},
			envelope.HeaderSource:      {"s"},
			envelope.HeaderID:          {id},
			envelope.HeaderType:        {typ},
			envelope.HeaderTime:        {at},
			envelope.HeaderRedrive:     {redrive},
			"Onceledger-H-X-Kept":      {kept},
		}
		event, err := envelope.Decode(h, nil)
		if err != nil {
			require.ErrorIs(t, err, envelope.ErrInvalid)
			return
		}
		msg, err := event.Msg()
		require.NoError(t, err)
		again, err := envelope.Decode(msg.Header, nil)
		require.NoError(t, err)
		require.Equal(t, event, again)
	})
}
