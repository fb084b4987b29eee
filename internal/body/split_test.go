package body_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/body"
	"github.com/onceledger/onceledger/internal/jsondoc"
)

func TestSplit(t *testing.T) {
	all := vectors(t)

	t.Run("the batches of providers, byte for byte", func(t *testing.T) {
		for _, c := range []struct {
			id, path string
			count    int
			first    string
		}{
			{"V37", "events", 1, `{"id":"EVTESTNE86TNZS"`},
			{"V38", "events", 2, `{"id":"EV00BD05S5VM2T"`},
			{"V50", "", 1, `{"email":"hello@world.com"`},
			{"V42", "", 1, `{"eventId":1`},
			{"V27", "notificationItems", 1, `{"NotificationRequestItem": {"pspReference": "7914073381342284"`},
		} {
			var path []string
			if c.path != "" {
				path = []string{c.path}
			}
			items, err := body.Split(all[c.id].Body, path...)
			require.NoError(t, err, c.id)
			require.Len(t, items, c.count, c.id)
			require.True(t, strings.HasPrefix(string(items[0].Data), c.first), "%s", items[0].Data)
			for _, item := range items {
				require.NoError(t, item.Err)
				require.Contains(t, string(all[c.id].Body), string(item.Data))
				_, err := jsondoc.Scan(item.Data, nil)
				require.NoError(t, err)
			}
		}
	})

	t.Run("case 73: 250 events, one without an id, one twice, one that is none", func(t *testing.T) {
		var events []string
		for i := range 250 {
			events = append(events, fmt.Sprintf(`{"id":"EV%d", "note" : "}],{\"[" }`, i))
		}
		events[99], events[199], events[200] = `{"action":"paid"}`, events[0], `"EV"`
		batch := "{\n \"events\" : [ " + strings.Join(events, " ,\n") + " ] , \"meta\":{}}\n"
		items, err := body.Split([]byte(batch), "events")
		require.NoError(t, err)
		require.Len(t, items, 250)
		for i, item := range items {
			require.Equal(t, events[i], string(item.Data))
			require.Equal(t, i != 200, item.Err == nil)
		}
		require.ErrorIs(t, items[200].Err, body.ErrSyntax)
	})

	t.Run("an item whose names are repeated is its own fault", func(t *testing.T) {
		items, err := body.Split([]byte(`[{"a":1,"a":2},{"a":3}]`))
		require.NoError(t, err)
		require.Len(t, items, 2)
		_, err = jsondoc.Scan(items[0].Data, nil)
		require.ErrorIs(t, err, jsondoc.ErrAmbiguous)
	})

	t.Run("none at all", func(t *testing.T) {
		items, err := body.Split([]byte("\xEF\xBB\xBF {\"events\":[ ]}"), "events")
		require.NoError(t, err)
		require.Empty(t, items)
	})

	for name, c := range map[string]struct {
		data string
		path []string
		err  error
	}{
		"broken within an item":        {`[{"a":1},{"a":tru}]`, nil, jsondoc.ErrSyntax},
		"broken behind":                {`{"events":[{}],"x":}`, []string{"events"}, jsondoc.ErrSyntax},
		"more behind":                  {`[{}][{}]`, nil, jsondoc.ErrSyntax},
		"events twice":                 {`{"events":[{"a":1}],"events":[{"a":2}]}`, []string{"events"}, jsondoc.ErrAmbiguous},
		"another name twice":           {`{"x":1,"x":2,"events":[]}`, []string{"events"}, jsondoc.ErrAmbiguous},
		"a name twice beside the path": {`{"a":{"events":[],"b":{"c":1,"c":2}}}`, []string{"a", "events"}, jsondoc.ErrAmbiguous},
		"no array":                     {`{"events":{}}`, []string{"events"}, jsondoc.ErrNoArray},
		"nothing there":                {`{"event":[]}`, []string{"events"}, jsondoc.ErrNoArray},
		"an array on the way":          {`[{"events":[]}]`, []string{"events"}, jsondoc.ErrNoArray},
		"an object at the end":         {`{}`, nil, jsondoc.ErrNoArray},
		"nothing":                      {``, nil, jsondoc.ErrSyntax},
		"depth":                        {`[` + strings.Repeat("[", 10_000), nil, jsondoc.ErrDepth},
	} {
		t.Run("refused whole: "+name, func(t *testing.T) {
			_, err := body.Split([]byte(c.data), c.path...)
			require.ErrorIs(t, err, c.err)
		})
	}

	t.Run("the number of items is bounded", func(t *testing.T) {
		list := func(n int) []byte { return []byte("[" + strings.Repeat("{},", n-1) + "{}]") }
		items, err := body.Split(list(body.MaxItems))
		require.NoError(t, err)
		require.Len(t, items, body.MaxItems)
		_, err = body.Split(list(body.MaxItems + 1))
		require.ErrorIs(t, err, body.ErrLimit)
	})
}
