package jsondoc_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/jsondoc"
)

var all = jsondoc.NewPaths([]string{})

func TestScanKeepsExactValues(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]any{
		`null`:                      nil,
		` true `:                    true,
		`false`:                     false,
		`"a\"\\\/\b\f\n\r\tz"`:      "a\"\\/\b\f\n\r\tz",
		`"\u00e9é🎉\ud83c\udf89"`:    "éé🎉🎉",
		"\"\u2028\"":                "\u2028",
		`0`:                         int64(0),
		`-0`:                        int64(0),
		`9007199254740993`:          int64(9007199254740993),
		`9223372036854775807`:       int64(9223372036854775807),
		`-9223372036854775808`:      int64(-9223372036854775808),
		`9223372036854775808`:       jsondoc.Number("9223372036854775808"),
		`-9223372036854775809`:      jsondoc.Number("-9223372036854775809"),
		`19.99`:                     jsondoc.Number("19.99"),
		`100.0`:                     jsondoc.Number("100.0"),
		`1E+2`:                      jsondoc.Number("1E+2"),
		`-0.0`:                      jsondoc.Number("-0.0"),
		`[]`:                        []any{},
		`{}`:                        map[string]any{},
		"\xEF\xBB\xBF{\"a\":[1,2]}": map[string]any{"a": []any{int64(1), int64(2)}},
		`"a\u0000b"`:                jsondoc.Unstorable("a\x00b"),
		`"\ud800"`:                  jsondoc.Unstorable("\xed\xa0\x80"),
		`"\udc00\ud800"`:            jsondoc.Unstorable("\xed\xb0\x80\xed\xa0\x80"),
		`"\ud800\u0041"`:            jsondoc.Unstorable("\xed\xa0\x80A"),
		"\"\xff\"":                  jsondoc.Unstorable("\xff"),
	} {
		got, err := jsondoc.Scan([]byte(text), all)
		require.NoError(t, err, "%q", text)
		require.Equal(t, want, got, "%q", text)
	}
}

func TestScanRefusesMalformed(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		``, ` `, "\xEF\xBB\xBF", "{}\xEF\xBB\xBF", `{`, `}`, `[`, `]`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `[1,]`, `[,1]`,
		`{a:1}`, `{'a':1}`, `{"a":1 "b":2}`, `[1 2]`, `{"a":1]`, `[1}`, `1 2`, `{} {}`, `nul`, `nulll`, `True`, `undefined`, `NaN`, `Infinity`,
		`01`, `-01`, `+1`, `.5`, `1.`, `1.e2`, `1e`, `1e+`, `-`, `0x10`, `1_000`, `1,000`,
		`"`, `"a`, `"\`, `"\x"`, `"\u12"`, `"\u12g4"`, `"\U0041"`, "\"\n\"", "\"\x00\"", "\"\x1f\"", `/**/1`, "\u00a01",
		strings.Repeat("1", jsondoc.MaxNumber+1), `[0.` + strings.Repeat("0", jsondoc.MaxNumber) + `]`,
	} {
		for _, keep := range []*jsondoc.Paths{nil, all} {
			_, err := jsondoc.Scan([]byte(text), keep)
			require.ErrorIs(t, err, jsondoc.ErrSyntax, "%q", text)
		}
	}
	_, err := jsondoc.Scan([]byte(strings.Repeat("1", jsondoc.MaxNumber)), all)
	require.NoError(t, err)
	_, err = jsondoc.Scan([]byte(`{"a": tru}`), nil)
	require.ErrorContains(t, err, `"}" in a literal at byte 9`)
}

func TestScanFindsRepeatedNames(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{"id":"first","id":"second"}`,
		`{"data":{"object":{"amount":1,"x":2,"amount":1}}}`,
		`[[{"a":1,"\u0061":2}]]`,
		`{"a\/b":1,"a/b":2}`,
		`{"é":1,"\u00e9":2}`,
		`{"🎉":1,"\ud83c\udf89":2}`,
		`{"":1,"":2}`,
		"{\"\xff\":1,\"\\ud800\":2}",
		`{"unread":{"deep":[1,{"n":1,"m":2,"n":3}]},"id":1}`,
		`{"a":{"b":1},"c":{"b":1},"a":1}`,
	} {
		for _, keep := range []*jsondoc.Paths{nil, all, jsondoc.NewPaths([]string{"id"})} {
			_, err := jsondoc.Scan([]byte(text), keep)
			require.ErrorIs(t, err, jsondoc.ErrAmbiguous, "%q", text)
		}
	}
	_, err := jsondoc.Scan([]byte(`{"amount":1,"amount":9}`), nil)
	require.ErrorContains(t, err, `"amount"`)

	for _, text := range []string{
		`{"id":"first","ID":"upper"}`, "{\"\u00e9\":1,\"e\u0301\":2}", `[{"a":1},{"a":2}]`, `{"a":{"a":{"a":1}}}`, `{"a":1,"b":{"a":1}}`,
	} {
		_, err := jsondoc.Scan([]byte(text), all)
		require.NoError(t, err, "%q", text)
	}
}

// wideObject has n members in each of two objects; the inner last name repeats number repeat.
func wideObject(n, repeat int) string {
	var b strings.Builder
	b.WriteString(`{"inner":{`)
	for i := range n {
		fmt.Fprintf(&b, `"k%d":%d,`, i, i)
	}
	fmt.Fprintf(&b, `"k%d":0}`, repeat)
	for i := range n {
		fmt.Fprintf(&b, `,"k%d":%d`, i, i)
	}
	return b.String() + `}`
}

func TestScanFindsRepeatedNamesAmongManyMembers(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 46, 47, 48, 49, 50, 51, 300} {
		for _, repeat := range []int{0, n / 2, n - 1} {
			_, err := jsondoc.Scan([]byte(wideObject(n, repeat)), nil)
			require.ErrorIs(t, err, jsondoc.ErrAmbiguous, "%d members", n)
			require.ErrorContains(t, err, fmt.Sprintf(`"k%d"`, repeat))
		}
		doc, err := jsondoc.Scan([]byte(wideObject(n, n)), all)
		require.NoError(t, err)
		require.Len(t, doc.(map[string]any)["inner"], n+1)
	}
}

func TestScanWorksInBoundedTimeOnVeryManyMembers(t *testing.T) {
	t.Parallel()
	body := []byte(wideObject(100_000, 100_000))
	start := time.Now()
	_, err := jsondoc.Scan(body, nil)
	require.NoError(t, err)
	// Comparing each name with all before it would take over ten seconds.
	require.Less(t, time.Since(start), 3*time.Second)
}

func TestScanBoundsDepth(t *testing.T) {
	t.Parallel()
	nest := func(n int) []byte { return []byte(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	_, err := jsondoc.Scan(nest(jsondoc.MaxDepth), all)
	require.NoError(t, err)
	_, err = jsondoc.Scan(nest(jsondoc.MaxDepth+1), nil)
	require.ErrorIs(t, err, jsondoc.ErrDepth)
	_, err = jsondoc.Scan(nest(100_000), nil)
	require.ErrorIs(t, err, jsondoc.ErrDepth)
	_, err = jsondoc.Scan([]byte(strings.Repeat(`{"a":`, 100_000)), nil)
	require.ErrorIs(t, err, jsondoc.ErrDepth)
	// Siblings do not add up.
	_, err = jsondoc.Scan([]byte(`[`+strings.Repeat(`[],{},`, 1000)+`[]]`), all)
	require.NoError(t, err)
}

func TestScanBuildsOnlyKeptPaths(t *testing.T) {
	t.Parallel()
	const body = `{"id":"e","data":{"object":{"amount":5,"meta":{"user":"u","x":[1]},"list":[{"a":1,"b":2}],"n":null}},"rest":{"a":[1,2]}}`
	for _, row := range []struct {
		keep *jsondoc.Paths
		want any
	}{
		{nil, nil},
		{jsondoc.NewPaths(), nil},
		{jsondoc.NewPaths([]string{"absent"}), map[string]any{}},
		{jsondoc.NewPaths([]string{"id"}), map[string]any{"id": "e"}},
		{jsondoc.NewPaths([]string{"data", "object", "amount"}, []string{"data", "object", "n"}),
			map[string]any{"data": map[string]any{"object": map[string]any{"amount": int64(5), "n": nil}}}},
		{jsondoc.NewPaths([]string{"data", "object", "list", "0", "a"}),
			map[string]any{"data": map[string]any{"object": map[string]any{"list": []any{map[string]any{"a": int64(1), "b": int64(2)}}}}}},
		{jsondoc.NewPaths([]string{"data", "object", "meta"}, []string{"data", "object", "meta", "user"}),
			map[string]any{"data": map[string]any{"object": map[string]any{"meta": map[string]any{"user": "u", "x": []any{int64(1)}}}}}},
		{jsondoc.NewPaths([]string{"id", "deeper", "still"}), map[string]any{"id": "e"}},
		{jsondoc.NewPaths([]string{"data", "absent"}), map[string]any{"data": map[string]any{}}},
	} {
		got, err := jsondoc.Scan([]byte(body), row.keep)
		require.NoError(t, err)
		require.Equal(t, row.want, got)
	}
}

func TestLookup(t *testing.T) {
	t.Parallel()
	doc, err := jsondoc.Scan([]byte(`{"a":{"b":[10,{"c":null}],"0":"zero"}}`), all)
	require.NoError(t, err)
	for path, want := range map[string]any{"a.b.0": int64(10), "a.b.1.c": nil, "a.0": "zero"} {
		got, ok := jsondoc.Lookup(doc, strings.Split(path, ".")...)
		require.True(t, ok, path)
		require.Equal(t, want, got, path)
	}
	for _, path := range []string{"x", "a.x", "a.b.2", "a.b.-1", "a.b.00", "a.b.+1", "a.b.c", "a.b.1.c.d", "a.b.0.x", "a.b.99999999999"} {
		_, ok := jsondoc.Lookup(doc, strings.Split(path, ".")...)
		require.False(t, ok, path)
	}
	whole, ok := jsondoc.Lookup(doc)
	require.True(t, ok)
	require.Equal(t, doc, whole)
}
