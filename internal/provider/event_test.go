package provider

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/envelope"
)

// read returns the event of a body, and shows that it can travel.
func read(t require.TestingT, s *Source, h http.Header, body string) *envelope.Event {
	event := eventOf(s, h, []byte(body), now)
	msg, err := event.Msg()
	require.NoError(t, err)
	again, err := envelope.Decode(msg.Header, msg.Data)
	require.NoError(t, err)
	require.Equal(t, event, again)
	require.Equal(t, event.Fault != "", strings.HasPrefix(event.ID, "generated/"))
	return event
}

func TestStripeEvent(t *testing.T) {
	t.Parallel()
	s := stripeSource(t, "k")
	body := "\xEF\xBB\xBF" + `{"id":"evt_1","object":"event","livemode":true,"created":1700000000,` +
		`"type":"charge.succeeded","data":{"object":{"id":"ch_1","amount":1000}}}` + "\r\n"
	trace := "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	event := read(t, s, http.Header{
		"Content-Type": {"application/json; charset=utf-8"}, "Traceparent": {trace}, "X-Other": {"x"},
	}, body)
	require.Equal(t, &envelope.Event{
		Source: "src", ID: "evt_1", Type: "charge.succeeded", Mode: "live",
		Time:        time.Unix(1_700_000_000, 0).UTC(),
		ContentType: "application/json; charset=utf-8", TraceParent: trace, Data: []byte(body),
	}, event)
}

func TestStripeConnectAccountIsPartOfTheKey(t *testing.T) {
	t.Parallel()
	event := read(t, stripeSource(t, "k"), nil, `{"id":"evt_1","account":"acct_9","livemode":true}`)
	require.Equal(t, "acct_9/evt_1", event.ID)
	require.Equal(t, "acct_9", event.Account)
}

// Case 12 and 60.
func TestTheOtherModeHasKeysOfItsOwn(t *testing.T) {
	t.Parallel()
	testing := configured("stripe", "k")
	testing.Mode = "test"
	for _, row := range []struct {
		source         *Source
		live, id, mode string
	}{
		{stripeSource(t, "k"), `true`, "evt_00000000000000", "live"},
		{stripeSource(t, "k"), `false`, "test/evt_00000000000000", "test"},
		{mustNew(t, testing), `false`, "evt_00000000000000", "test"},
		{mustNew(t, testing), `true`, "live/evt_00000000000000", "live"},
		{stripeSource(t, "k"), `null`, "evt_00000000000000", ""},
		{stripeSource(t, "k"), `1`, "evt_00000000000000", ""},
		{stripeSource(t, "k"), `{}`, "evt_00000000000000", ""},
	} {
		event := read(t, row.source, nil, `{"id":"evt_00000000000000","livemode":`+row.live+`}`)
		require.Equal(t, row.id, event.ID)
		require.Equal(t, row.mode, event.Mode)
		require.Empty(t, event.Fault)
	}
	connect := read(t, stripeSource(t, "k"), nil, `{"id":"evt_1","livemode":false,"account":"acct_9"}`)
	require.Equal(t, "test/acct_9/evt_1", connect.ID)
}

// Case 54, 55, 56 and 59.
func TestEventIDs(t *testing.T) {
	t.Parallel()
	s := stripeSource(t, "k")
	for name, row := range map[string]struct{ body, id, fault string }{
		"past 2^53":         {`{"id":9007199254740993}`, "9007199254740993", ""},
		"its neighbour":     {`{"id":9007199254740992}`, "9007199254740992", ""},
		"the same as text":  {`{"id":"9007199254740993"}`, "9007199254740993", ""},
		"past 64 bits":      {`{"id":92233720368547758079}`, "92233720368547758079", ""},
		"space":             {`{"id":"a b"}`, "a b", ""},
		"subject":           {`{"id":"a.b.*.>"}`, "a.b.*.>", ""},
		"injection":         {`{"id":"a\r\nNats-Msg-Id: x"}`, "a\r\nNats-Msg-Id: x", ""},
		"unicode":           {`{"id":"日本"}`, "日本", ""},
		"NFC":               {"{\"id\":\"\u00e9\"}", "\u00e9", ""},
		"NFD":               {"{\"id\":\"e\u0301\"}", "e\u0301", ""},
		"escaped":           {`{"id":"\u00e9\/"}`, "/\u00e9/", ""},
		"512 bytes":         {`{"id":"` + strings.Repeat("x", 512) + `"}`, strings.Repeat("x", 512), ""},
		"NUL elsewhere":     {`{"id":"evt_F7","note":"a\u0000b"}`, "evt_F7", ""},
		"half a pair there": {`{"id":"evt_F7","note":"\ud800"}`, "evt_F7", ""},

		"no id":            {`{"type":"x"}`, "", "no_event_id"},
		"null":             {`{"id":null}`, "", "no_event_id"},
		"empty":            {`{"id":""}`, "", "no_event_id"},
		"object":           {`{"id":{}}`, "", "no_event_id"},
		"array":            {`{"id":["a"]}`, "", "no_event_id"},
		"bool":             {`{"id":true}`, "", "no_event_id"},
		"fraction":         {`{"id":1.5}`, "", "no_event_id"},
		"exponent":         {`{"id":1e3}`, "", "no_event_id"},
		"other case":       {`{"ID":"evt_1"}`, "", "no_event_id"},
		"body is a list":   {`[{"id":"evt_1"}]`, "", "no_event_id"},
		"body is a text":   {`"evt_1"`, "", "no_event_id"},
		"4,096 characters": {`{"id":"` + strings.Repeat("x", 4096) + `"}`, "", "id_invalid"},
		"513 with account": {`{"id":"` + strings.Repeat("x", 511) + `","account":"a"}`, "", "id_invalid"},
		"NUL":              {`{"id":"a\u0000"}`, "", "id_invalid"},
		"lone surrogate":   {`{"id":"\ud800"}`, "", "id_invalid"},
		"invalid UTF-8":    {"{\"id\":\"\xff\"}", "", "id_invalid"},
		"long type":        {`{"id":"a","type":"` + strings.Repeat("x", 257) + `"}`, "", "unstorable_text"},
		"NUL in type":      {`{"id":"a","type":"\u0000"}`, "", "unstorable_text"},
		"NUL in account":   {`{"id":"a","account":"\u0000"}`, "", "unstorable_text"},
		"repeated id":      {`{"id":"a","id":"b"}`, "", "ambiguous_json"},
		"repeated deeper":  {`{"id":"a","x":{"b":1,"b":2}}`, "", "ambiguous_json"},
		"too deep":         {`{"id":"a","x":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`, "", "bad_json"},
		"no JSON":          {`id=evt_1`, "", "bad_json"},
		"cut off":          {`{"id":"evt_1"`, "", "bad_json"},
		"nothing":          {``, "", "bad_json"},
	} {
		t.Run(name, func(t *testing.T) {
			event := read(t, s, nil, row.body)
			require.Equal(t, row.fault, event.Fault)
			if row.fault == "" {
				require.Equal(t, row.id, event.ID)
				return
			}
			_, known := dlq.Reason(event.Fault).Info()
			require.True(t, known)
			require.NotEqual(t, event.ID, read(t, s, nil, row.body).ID)
		})
	}
}

func TestKeysNeverMeet(t *testing.T) {
	t.Parallel()
	accounts := []string{
		"", "a", "live", "test", "/", "%", "%2F", "%25", "a/b", "a%2Fb", "a/live", "%6Cive", "%74est", "%256Cive",
	}
	ids := []string{
		"b", "/", "/b", "b/b", "a/b", "//b", "live/b", "test/b", "/test/b", "test//b", "test/a/b", "%2Fb",
	}
	for _, own := range []string{live, test} {
		src := configured("stripe", "k")
		src.Mode = own
		s, keys := mustNew(t, src), map[string]string{}
		for _, mode := range []string{live, test} {
			for _, account := range accounts {
				for _, id := range ids {
					key := s.key(&envelope.Event{Account: account, Mode: mode}, id)
					who := strings.Join([]string{mode, account, id}, " + ")
					require.Empty(t, keys[key], "%s is also %s", key, who)
					keys[key] = who
				}
			}
		}
	}
}

func TestAnIDWithASlashStaysAsItIsWhereNothingPrecedesIt(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a/b", read(t, mustNew(t, genericConfig()), nil, `{"id":"a/b"}`).ID)
	require.Equal(t, "/a/b", read(t, stripeSource(t, "k"), nil, `{"id":"a/b"}`).ID)
}

func TestGitHubEvent(t *testing.T) {
	t.Parallel()
	s := mustNew(t, configured("github", "k"))
	h := http.Header{}
	h.Set("X-GitHub-Delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958")
	h.Set("X-GitHub-Event", "issues")
	h.Set("X-GitHub-Hook-ID", "292430182")
	h.Set("User-Agent", "GitHub-Hookshot/044aadd")

	event := read(t, s, h, `{"action":"opened","id":1}`)
	require.Equal(t, "72d3162e-cc78-11e3-81ab-4c9367dc0958", event.ID)
	require.Equal(t, "issues.opened", event.Type)
	require.Equal(t, now.UTC(), event.Time)
	require.Empty(t, event.Mode)
	require.Equal(t, map[string]string{
		"X-Github-Delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
		"X-Github-Event":    "issues",
		"X-Github-Hook-Id":  "292430182",
	}, event.Header)

	require.Equal(t, "issues", read(t, s, h, `{"zen":"x"}`).Type)
	require.Equal(t, "issues.opened", read(t, s, h, `payload=%7B%22action%22%3A%22opened%22%7D`).Type)
	require.Equal(t, "bad_json", read(t, s, h, `hello`).Fault)
	require.Equal(t, "issues", read(t, s, h, `hello`).Type)

	h.Add("X-GitHub-Delivery", "another")
	require.Equal(t, "id_invalid", read(t, s, h, `{}`).Fault)
	h.Set("X-GitHub-Delivery", "\xff")
	require.Equal(t, "id_invalid", read(t, s, h, `{}`).Fault)
	h.Del("X-GitHub-Delivery")
	require.Equal(t, "no_event_id", read(t, s, h, `{}`).Fault)
}

func TestStandardWebhooksEvent(t *testing.T) {
	t.Parallel()
	s := mustNew(t, configured("standard-webhooks", "b2xkIHNlY3JldA=="))
	body := `{"id":"evt_9","type":"contact.created","timestamp":"2022-11-03T20:26:10.344522Z"}`
	for _, header := range []string{"Webhook-Id", "Svix-Id"} {
		event := read(t, s, http.Header{header: {"msg_1"}}, body)
		require.Equal(t, "msg_1", event.ID)
		require.Equal(t, "contact.created", event.Type)
		require.Equal(t, time.Date(2022, 11, 3, 20, 26, 10, 344_522_000, time.UTC), event.Time)
	}

	// OpenAI calls the time otherwise.
	src := configured("standard-webhooks", "b2xkIHNlY3JldA==")
	src.Time, src.Account = text("body:created_at"), text("body:data.org")
	event := read(t, mustNew(t, src), http.Header{"Webhook-Id": {"wh_1"}}, `{"created_at":1700000000,"data":{"org":"o"}}`)
	require.Equal(t, time.Unix(1_700_000_000, 0).UTC(), event.Time)
	require.Equal(t, "o/wh_1", event.ID)
}

func TestGenericEventIsFoundByLocators(t *testing.T) {
	t.Parallel()
	src := genericConfig()
	src.ID, src.Type = text("header:X-Event-Id"), text("body:meta.kind")
	src.Account, src.Time, src.LiveMode = text("body:meta.shop"), text("header:X-Sent-At"), text("header:X-Mode")
	s := mustNew(t, src)
	require.True(t, s.HasMode())
	event := read(t, s, http.Header{
		"X-Event-Id": {"7"}, "X-Sent-At": {"2024-05-01T12:00:00+02:00"}, "X-Mode": {"test"},
	}, `{"meta":{"kind":"payment captured","shop":42}}`)
	require.Equal(t, "test/42/7", event.ID)
	require.Equal(t, "payment captured", event.Type)
	require.Equal(t, time.Date(2024, 5, 1, 10, 0, 0, 0, time.UTC), event.Time)
	require.Equal(t, map[string]string{
		"X-Event-Id": "7", "X-Sent-At": "2024-05-01T12:00:00+02:00", "X-Mode": "test",
	}, event.Header)
}

func TestTimesThatCannotBeAreNow(t *testing.T) {
	t.Parallel()
	s := stripeSource(t, "k")
	for created, want := range map[string]time.Time{
		`1700000000`:                  time.Unix(1_700_000_000, 0),
		`"1700000000"`:                time.Unix(1_700_000_000, 0),
		`1700000000123`:               time.UnixMilli(1_700_000_000_123),
		`1700000000.9`:                time.Unix(1_700_000_000, 0),
		`"1700000000.000100"`:         time.Unix(1_700_000_000, 0),
		`"2023-11-14T22:13:20Z"`:      time.Unix(1_700_000_000, 0),
		`"2023-11-14T23:13:20+01:00"`: time.Unix(1_700_000_000, 0),
		`"2023-11-14"`:                now,
		`0`:                           now,
		`-1`:                          now,
		`99999999999`:                 now,
		`9223372036854775807`:         now,
		`92233720368547758079`:        now,
		`1e9`:                         now,
		`1750086401`:                  now, // a day and a second ahead
		`"yesterday"`:                 now,
		`null`:                        now,
		`[]`:                          now,
	} {
		event := read(t, s, nil, `{"id":"evt_1","created":`+created+`}`)
		require.Equal(t, want.UTC(), event.Time, created)
	}
}

func TestHeadersThatCannotTravelAreLeftOut(t *testing.T) {
	t.Parallel()
	src := configured("github", "k")
	event := read(t, mustNew(t, src), http.Header{
		"X-Github-Delivery": {"1"},
		"X-Github-Event":    {strings.Repeat("x", 2000)},
		"X-Github-Hook-Id":  {"1", "2"},
		"Content-Type":      {strings.Repeat("x", 300)},
		"Traceparent":       {"00-xyz"},
	}, `{}`)
	require.Equal(t, "unstorable_text", event.Fault)
	require.Empty(t, event.ContentType)
	require.Empty(t, event.TraceParent)
	require.Equal(t, map[string]string{"X-Github-Delivery": "1"}, event.Header)
}

func TestTraceParentKeepsItsShape(t *testing.T) {
	t.Parallel()
	good := "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	require.Equal(t, good, traceParent(good))
	for _, bad := range []string{
		"", good + "0", strings.ToUpper(good), strings.Replace(good, "-", "0", 1), strings.Replace(good, "4", "%", 1),
	} {
		require.Empty(t, traceParent(bad))
	}
}

func FuzzEvent(f *testing.F) {
	sources := []*Source{
		stripeSource(f, "k"),
		mustNew(f, configured("github", "k")),
		mustNew(f, configured("standard-webhooks", "b2xkIHNlY3JldA==")),
		mustNew(f, func() config.Source {
			src := genericConfig()
			src.Type, src.Account, src.LiveMode = text("body:a.type"), text("header:X-Account"), text("body:live")
			return src
		}()),
	}
	f.Add(`{"id":"evt_1","account":"a","livemode":false,"created":1,"type":"x"}`, "msg_1", "issues")
	f.Add(`{"id":9007199254740993,"a":{"type":null},"live":"test"}`, "\xff", "a/b")
	f.Add("\xEF\xBB\xBF{", "", "\x00")
	f.Fuzz(func(t *testing.T, body, id, other string) {
		h := http.Header{
			"Webhook-Id": {id}, "X-Github-Delivery": {id}, "X-Github-Event": {other},
			"X-Account": {other}, "Content-Type": {other}, "Traceparent": {other},
		}
		for _, s := range sources {
			event := read(t, s, h, body)
			require.Equal(t, body, string(event.Data))
		}
	})
}
