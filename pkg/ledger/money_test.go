package ledger_test

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/onceledger/onceledger/pkg/ledger"
)

// Case 64: 19.99 × 100 in floats gave 1998, 8.20 gave 819.
func TestParseMajorReadsEveryCentExactly(t *testing.T) {
	t.Parallel()
	for cents := int64(1); cents <= 99999; cents++ {
		padded := fmt.Sprintf("%d.%02d", cents/100, cents%100)
		// The shortest spelling is what a JSON encoder writes: 8.2, 100.
		short := strings.TrimSuffix(strings.TrimRight(padded, "0"), ".")
		for _, text := range []string{padded, short} {
			amount, err := ledger.ParseMajor(text, 2)
			require.NoError(t, err)
			require.Equal(t, cents, amount, text)
			amount, err = ledger.ParseMajorNumber(text, 2)
			require.NoError(t, err)
			require.Equal(t, cents, amount, text)
		}
		require.Equal(t, padded, ledger.FormatMinor(cents, 2))
	}
}

func TestParseMajor(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text     string
		exponent int
		want     int64
	}{
		{"1000", 0, 1000}, {"1000.00", 0, 1000}, {"1000", 2, 100000}, {"10.5", 2, 1050}, // case 65
		{"12.50", 2, 1250},   // case 66
		{"12.345", 3, 12345}, // case 86
		{"0", 2, 0}, {"0.00", 2, 0}, {"0.000", 2, 0}, {"0.01", 2, 1}, {"00012.50", 2, 1250},
		{"19.990000000000000000000000000000", 2, 1999},
		{"92233720368547758.07", 2, math.MaxInt64},
		{"9.223372036854775807", 18, math.MaxInt64},
		{"922337203685477580", 1, math.MaxInt64 - 7},
		{"0.000000000000000001", 18, 1},
	} {
		for name, parse := range map[string]func(string, int) (int64, error){
			"text": ledger.ParseMajor, "number": ledger.ParseMajorNumber,
		} {
			amount, err := parse(tc.text, tc.exponent)
			require.NoError(t, err, "%s %q", name, tc.text)
			require.Equal(t, tc.want, amount, "%s %q", name, tc.text)
		}
	}
}

func TestRescale(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		amount   int64
		from, to int
		want     int64
		err      error
	}{
		{1000, 2, 0, 10, nil}, {10, 0, 2, 1000, nil}, {1234, 2, 2, 1234, nil}, {0, 0, 18, 0, nil}, {-1000, 2, 0, -10, nil},
		{-10, 0, 2, -1000, nil}, {1050, 2, 1, 105, nil}, {math.MaxInt64, 3, 3, math.MaxInt64, nil},
		{math.MaxInt64 / 10, 0, 1, math.MaxInt64 / 10 * 10, nil}, {math.MinInt64 / 10, 0, 1, math.MinInt64 / 10 * 10, nil},
		{1050, 2, 0, 0, ledger.ErrAmountPrecision}, {-1, 1, 0, 0, ledger.ErrAmountPrecision},
		{math.MaxInt64/10 + 1, 0, 1, 0, ledger.ErrAmountOverflow}, {math.MinInt64/10 - 1, 0, 1, 0, ledger.ErrAmountOverflow},
		{1, 0, 19, 0, ledger.ErrAmountPrecision}, {1, -1, 0, 0, ledger.ErrAmountPrecision},
	} {
		got, err := ledger.Rescale(c.amount, c.from, c.to)
		require.ErrorIs(t, err, c.err, c)
		require.Equal(t, c.want, got, c)
	}
}

func TestParseMajorRefuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text     string
		exponent int
		want     error
	}{
		{"98.9009", 2, ledger.ErrAmountPrecision}, {"19.999", 2, ledger.ErrAmountPrecision}, // case 64
		{"1000.50", 0, ledger.ErrAmountPrecision}, {"0.001", 2, ledger.ErrAmountPrecision},
		// Case 67, every one of them.
		{"1,234.56", 2, ledger.ErrAmountFormat}, {"1.234,56", 2, ledger.ErrAmountFormat},
		{"800,00", 2, ledger.ErrAmountFormat}, {"1 234.56", 2, ledger.ErrAmountFormat},
		{"１２", 2, ledger.ErrAmountFormat}, {" 12.00", 2, ledger.ErrAmountFormat},
		{"+12.00", 2, ledger.ErrAmountFormat}, {"12.00 EUR", 2, ledger.ErrAmountFormat},
		{"", 2, ledger.ErrAmountFormat},
		// Case 70 and the rest of what is no number.
		{"-500", 2, ledger.ErrAmountFormat}, {"-0", 2, ledger.ErrAmountFormat},
		{"NaN", 2, ledger.ErrAmountFormat}, {"Inf", 2, ledger.ErrAmountFormat},
		{"0x10", 2, ledger.ErrAmountFormat}, {"1_000", 2, ledger.ErrAmountFormat},
		{".5", 2, ledger.ErrAmountFormat}, {"5.", 2, ledger.ErrAmountFormat}, {".", 2, ledger.ErrAmountFormat},
		{"1.2.3", 2, ledger.ErrAmountFormat}, {"12\n", 2, ledger.ErrAmountFormat}, {"1\x00", 2, ledger.ErrAmountFormat},
		{"1e", 2, ledger.ErrAmountFormat}, {"e1", 2, ledger.ErrAmountFormat}, {"1e+-1", 2, ledger.ErrAmountFormat},
		{"1e1.5", 2, ledger.ErrAmountFormat}, {"1e31", 2, ledger.ErrAmountFormat}, {"0e-31", 2, ledger.ErrAmountFormat},
		{"1e99999999999999999999", 2, ledger.ErrAmountFormat},
		{"92233720368547758.08", 2, ledger.ErrAmountOverflow},
		{"9223372036854775807", 1, ledger.ErrAmountOverflow}, {"922337203685477581", 1, ledger.ErrAmountOverflow},
		{"99999999999999999999999999", 0, ledger.ErrAmountOverflow},
		{"1", 19, ledger.ErrAmountPrecision}, {"1", -1, ledger.ErrAmountPrecision},
	} {
		_, err := ledger.ParseMajor(tc.text, tc.exponent)
		require.ErrorIs(t, err, tc.want, "text %q", tc.text)
		_, err = ledger.ParseMajorNumber(tc.text, tc.exponent)
		require.ErrorIs(t, err, tc.want, "number %q", tc.text)
	}
}

func TestAmountsSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	major := func(text string) (int64, error) { return ledger.ParseMajor(text, 2) }
	for _, tc := range []struct {
		parse      func(string) (int64, error)
		text, want string
	}{
		{ledger.ParseMinorNumber, "9.5", `amount cannot be read: "9.5" has a decimal point; minor units are digits alone, such as 1250`},
		{ledger.ParseMinor, "-5", `amount cannot be read: "-5" has a sign; minor units are digits alone, such as 1250`},
		{ledger.ParseMinor, "", `amount cannot be read: "" is empty; minor units are digits alone, such as 1250`},
		{ledger.ParseMinor, "9.x", `amount cannot be read: "9.x"; minor units are digits alone, such as 1250`},
		{major, "1,234.56", `amount cannot be read: "1,234.56"; digits with at most one decimal point between them are accepted, such as 12.50`},
		{major, "12.345", `amount has more decimals than its asset: "12.345"; at most 2 are accepted`},
		{ledger.ParseMinorNumber, "1.255e2", `amount has more decimals than its asset: "1.255e2"; at most 0 are accepted`},
	} {
		_, err := tc.parse(tc.text)
		require.EqualError(t, err, tc.want)
	}
}

func TestScientificNotationIsForNumbersOnly(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"1.999e1": 1999, "1999e-2": 1999, "1E+1": 1000, "0.0001999e5": 1999, "0e30": 0, "1e-2": 1, "2e007": 2000000000,
	} {
		amount, err := ledger.ParseMajorNumber(text, 2)
		require.NoError(t, err, text)
		require.Equal(t, want, amount, text)
		_, err = ledger.ParseMajor(text, 2)
		require.ErrorIs(t, err, ledger.ErrAmountFormat, text)
	}
	_, err := ledger.ParseMajorNumber("1e-3", 2)
	require.ErrorIs(t, err, ledger.ErrAmountPrecision)
	_, err = ledger.ParseMajorNumber("1e30", 2)
	require.ErrorIs(t, err, ledger.ErrAmountOverflow)

	amount, err := ledger.ParseMinorNumber("1.25e3")
	require.NoError(t, err)
	require.Equal(t, int64(1250), amount)
	_, err = ledger.ParseMinorNumber("1.255e2")
	require.ErrorIs(t, err, ledger.ErrAmountPrecision)
}

func TestParseMinor(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"1000": 1000, "0": 0, "0005": 5, "9007199254740993": 9007199254740993, "9223372036854775807": math.MaxInt64,
	} {
		for name, parse := range map[string]func(string) (int64, error){
			"text": ledger.ParseMinor, "number": ledger.ParseMinorNumber,
		} {
			amount, err := parse(text)
			require.NoError(t, err, "%s %q", name, text)
			require.Equal(t, want, amount, "%s %q", name, text)
		}
	}
}

func TestParseMinorRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]error{
		"": ledger.ErrAmountFormat, "-1": ledger.ErrAmountFormat, "+1": ledger.ErrAmountFormat,
		"12.50": ledger.ErrAmountFormat, "12.00": ledger.ErrAmountFormat, // major units where minor are due
		"1,000": ledger.ErrAmountFormat, "１２": ledger.ErrAmountFormat, " 1": ledger.ErrAmountFormat,
		"NaN": ledger.ErrAmountFormat, "9223372036854775808": ledger.ErrAmountOverflow,
	} {
		_, err := ledger.ParseMinor(text)
		require.ErrorIs(t, err, want, "text %q", text)
		_, err = ledger.ParseMinorNumber(text)
		require.ErrorIs(t, err, want, "number %q", text)
	}
	_, err := ledger.ParseMinor("1e3")
	require.ErrorIs(t, err, ledger.ErrAmountFormat)
}

func TestErrorsShowABoundedText(t *testing.T) {
	t.Parallel()
	_, err := ledger.ParseMajor(strings.Repeat("x", 1<<20), 2)
	require.ErrorIs(t, err, ledger.ErrAmountFormat)
	require.Less(t, len(err.Error()), 200)
}

func TestFormatMinor(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		amount   int64
		exponent int
		want     string
	}{
		{1999, 2, "19.99"}, {-1999, 2, "-19.99"}, {5, 2, "0.05"}, {-5, 2, "-0.05"}, {0, 2, "0.00"},
		{12345, 3, "12.345"}, {12345, 0, "12345"}, {-1, 0, "-1"}, {1, 18, "0.000000000000000001"},
		{math.MaxInt64, 2, "92233720368547758.07"}, {math.MinInt64, 2, "-92233720368547758.08"},
		{math.MinInt64, 0, "-9223372036854775808"}, {7, -3, "7"}, {7, 99, "0.000000000000000007"},
	} {
		require.Equal(t, tc.want, ledger.FormatMinor(tc.amount, tc.exponent))
	}
}

func TestMoneyRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		amount := rapid.Int64Min(0).Draw(t, "amount")
		exponent := rapid.IntRange(0, ledger.MaxExponent).Draw(t, "exponent")
		back, err := ledger.ParseMajor(ledger.FormatMinor(amount, exponent), exponent)
		require.NoError(t, err)
		require.Equal(t, amount, back)
		back, err = ledger.ParseMinor(strconv.FormatInt(amount, 10))
		require.NoError(t, err)
		require.Equal(t, amount, back)
	})
}

// FuzzParseMajorNumber compares with exact rational arithmetic.
func FuzzParseMajorNumber(f *testing.F) {
	for _, seed := range []string{"19.99", "1e-2", "1.50E+3", "-1", "0.000", "9223372036854775807", "1e30", "１", "1.", "0e31"} {
		f.Add(seed, 2)
	}
	f.Fuzz(func(t *testing.T, text string, exponent int) {
		amount, err := ledger.ParseMajorNumber(text, exponent)
		if err != nil {
			require.Zero(t, amount)
			return
		}
		require.GreaterOrEqual(t, amount, int64(0))
		require.True(t, 0 <= exponent && exponent <= ledger.MaxExponent)
		want, ok := new(big.Rat).SetString(text)
		require.True(t, ok, text)
		unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(exponent)), nil)
		want.Mul(want, new(big.Rat).SetInt(unit))
		require.Zero(t, want.Cmp(new(big.Rat).SetInt64(amount)), "%q is %s, not %d", text, want, amount)

		if plain, err := ledger.ParseMajor(text, exponent); err == nil {
			require.Equal(t, amount, plain)
		}
	})
}
