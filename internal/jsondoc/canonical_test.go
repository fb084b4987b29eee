package jsondoc_test

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/onceledger/onceledger/internal/jsondoc"
)

func canonical(t require.TestingT, text string) string {
	doc, err := jsondoc.Scan([]byte(text), all)
	require.NoError(t, err, "%q", text)
	return string(jsondoc.AppendCanonical(nil, doc))
}

func TestCanonicalEqualsWhatMeansTheSame(t *testing.T) {
	t.Parallel()
	for _, same := range [][]string{
		{`100`, `100.0`, `1e2`, `1E+2`, `10e1`, `1000e-1`, `0.1e3`, `1.00e00000000000000002`},
		{`0`, `-0`, `0.0`, `-0.0`, `0e5`, `0e99999999999999999999`, `0.000E-99999999999`},
		{`-19.99`, `-1999e-2`, `-19.990`},
		{`9223372036854775807`, `9223372036854775807.0`, `9223372036854775807e0`},
		{`{"a":1,"b":[2,{"c":3,"d":4}]}`, ` { "b":[2.0,{"d":4,"c":3}] , "\u0061":1 }`},
		{`"é"`, `"\u00e9"`}, {`"a/b"`, `"a\/b"`},
	} {
		for _, other := range same[1:] {
			require.Equal(t, canonical(t, same[0]), canonical(t, other), "%s and %s", same[0], other)
		}
	}
}

func TestCanonicalTellsApartWhatDiffers(t *testing.T) {
	t.Parallel()
	texts := []string{
		`null`, `true`, `false`, `0`, `1`, `-1`, `10`, `0.1`, `1e400`, `1e-400`, `1e999999999`, `1e9999999999`, `1e99999999999`, `-1e99999999999`,
		`9007199254740992`, `9007199254740993`, `123456789012345678901234567890`, `123456789012345678901234567891`,
		`""`, `"0"`, `"1"`, `"null"`, `"a"`, `"b"`, `"a\u0000"`, `"\ufffd"`, `"\ud800"`, `"e\u0301"`, `"é"`,
		`[]`, `{}`, `[[]]`, `[null]`, `[[],[]]`, `[[[]]]`, `["a","b"]`, `["ab"]`, `["a",["b"]]`, `[1,0]`, `[10]`, `[0,1]`,
		`{"a":null}`, `{"a":"b"}`, `{"a":{"b":1},"c":2}`, `{"a":{"b":1,"c":2}}`, `{"ab":1}`, `{"a":1,"b":1}`,
	}
	seen := map[string]string{string(jsondoc.AppendMissing(nil)): "missing"}
	for _, text := range texts {
		c := canonical(t, text)
		require.NotContains(t, seen, c, "%s and %s", text, seen[c])
		seen[c] = text
	}
}

func TestCanonicalNumbersEqualByValue(t *testing.T) {
	t.Parallel()
	literal := rapid.StringMatching(`-?(0|[1-9][0-9]{0,6})(\.[0-9]{1,4})?([eE][+-]?[0-9]{1,2})?`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := literal.Draw(t, "a"), literal.Draw(t, "b")
		x, _ := new(big.Rat).SetString(a)
		y, _ := new(big.Rat).SetString(b)
		require.Equal(t, x.Cmp(y) == 0, canonical(t, a) == canonical(t, b), "%s and %s", a, b)

		order, ok := jsondoc.Compare(jsondoc.Number(a), jsondoc.Number(b))
		require.True(t, ok)
		require.Equal(t, x.Cmp(y), order, "%s and %s", a, b)

		shifted := new(big.Rat).Set(x).FloatString(120)
		require.Equal(t, canonical(t, a), canonical(t, shifted))
	})
}

func TestCompareIsExactAndBounded(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		a, b jsondoc.Number
		want int
	}{
		{"9007199254740993", "9007199254740992.0", 1},
		{"1e999999999", "2e999999998", 1},
		{"-1e999999999", "1e-999999999", -1},
		{"1e-999999999", "0", 1},
		{"0.10", "1e-1", 0},
		{"-0", "0.0e99999999999999", 0},
	} {
		order, ok := jsondoc.Compare(row.a, row.b)
		require.True(t, ok)
		require.Equal(t, row.want, order, "%s and %s", row.a, row.b)
	}
	_, ok := jsondoc.Compare("1e1000000000", "1")
	require.False(t, ok)
}

// jsonValue draws what encoding/json would decode.
func jsonValue() *rapid.Generator[any] {
	scalar := rapid.OneOf(
		rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.Int64().AsAny(), rapid.StringN(0, 6, -1).AsAny(),
		rapid.Map(rapid.StringMatching(`-?[1-9][0-9]{0,3}\.[0-9]{1,3}`), func(s string) any { return json.Number(s) }))
	level := scalar
	for range 3 {
		inner := level
		level = rapid.OneOf(scalar,
			rapid.Map(rapid.SliceOfN(inner, 0, 4), func(s []any) any { return s }),
			rapid.Map(rapid.MapOfN(rapid.StringN(0, 4, -1), inner, 0, 5), func(m map[string]any) any { return m }))
	}
	return level
}

func TestCanonicalIgnoresWhiteSpaceAndOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := jsonValue().Draw(t, "value")
		compact, err := json.Marshal(v)
		require.NoError(t, err)
		spread, err := json.MarshalIndent(v, " ", "\t")
		require.NoError(t, err)
		require.Equal(t, canonical(t, string(compact)), canonical(t, strings.ReplaceAll(string(spread), "\n", "\r\n")))

		other, err := json.Marshal(jsonValue().Draw(t, "other"))
		require.NoError(t, err)
		if canonical(t, string(compact)) == canonical(t, string(other)) {
			require.JSONEq(t, string(compact), string(other))
		}
	})
}
