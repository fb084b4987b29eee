package jsondoc_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/jsondoc"
)

// isSurrogate reports whether b starts with half a surrogate pair as bytes. In a
// body that is invalid UTF-8, which encoding/json reads as three characters; as
// an escape it reads it as one.
func isSurrogate(b string) bool {
	return len(b) >= 3 && b[0] == 0xED && b[1] >= 0xA0 && b[1] < 0xC0 && b[2]&0xC0 == 0x80
}

// standardText is what encoding/json makes of an Unstorable.
func standardText(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if isSurrogate(s) {
			n = 3
		}
		b.WriteRune(r)
		s = s[n:]
	}
	return b.String()
}

func holdsSurrogate(data []byte) bool {
	for i := range data {
		if isSurrogate(string(data[i:min(i+3, len(data))])) {
			return true
		}
	}
	return false
}

// FuzzScan holds Scan against encoding/json: it accepts the same documents,
// apart from its own stricter refusals, and reads the same values.
func FuzzScan(f *testing.F) {
	for _, seed := range []string{
		`{"id":"evt_1","data":{"object":{"amount":100,"meta":{"a":[1,2.5,-3e2,null,true]}}}}`,
		`{"a":1,"\u0061":2}`, `"\ud83c\udf89\ud800"`, "\"\xff\xed\xa0\x80\"", `[1,[2,[3,{}]]]`, `-0`, `1e400`, `"\u0000"`, `{"":{"":{}}}`, "\xEF\xBB\xBF1",
	} {
		f.Add([]byte(seed))
	}
	some := jsondoc.NewPaths([]string{"a"}, []string{"data", "object", "amount"}, []string{"", ""})
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := jsondoc.Scan(data, all)
		for _, keep := range []*jsondoc.Paths{nil, some} {
			_, other := jsondoc.Scan(data, keep)
			require.Equal(t, err, other, "what is kept decides about acceptance")
		}
		data = bytes.TrimPrefix(data, []byte("\xEF\xBB\xBF"))
		switch {
		case err == nil:
			require.True(t, json.Valid(data))
		case errors.Is(err, jsondoc.ErrAmbiguous), errors.Is(err, jsondoc.ErrDepth), strings.Contains(err.Error(), "number of"):
			return
		default:
			require.ErrorIs(t, err, jsondoc.ErrSyntax)
			require.False(t, json.Valid(data), "%v", err)
			return
		}
		if !holdsSurrogate(data) {
			require.Equal(t, decodeStandard(t, data), standard(doc))
		}
		jsondoc.AppendCanonical(nil, doc)
	})
}

func decodeStandard(t *testing.T, data []byte) any {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	require.NoError(t, dec.Decode(&v))
	_, err := dec.Token()
	require.ErrorIs(t, err, io.EOF)
	return normalise(v)
}

// normalise turns json.Number into the types of Scan, and text into Go's
// reading of it.
func normalise(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		return jsondoc.Number(v)
	case []any:
		for i := range v {
			v[i] = normalise(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = normalise(v[name])
		}
	}
	return v
}

// standard replaces every Unstorable by what encoding/json makes of it.
func standard(v any) any {
	switch v := v.(type) {
	case jsondoc.Unstorable:
		return standardText(string(v))
	case []any:
		for i := range v {
			v[i] = standard(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = standard(v[name])
		}
	}
	return v
}
