package ledger

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// What can be wrong with an amount. Parse functions wrap one of these.
var (
	// ErrAmountFormat says that the text is not a plain unsigned decimal number.
	ErrAmountFormat = errors.New("amount cannot be read")
	// ErrAmountPrecision says that the amount has more digits than its asset.
	ErrAmountPrecision = errors.New("amount has more decimals than its asset")
	// ErrAmountOverflow says that the amount does not fit into 64 bits.
	ErrAmountOverflow = errors.New("amount does not fit into 64 bits")
)

// MaxExponent is the largest number of decimals an asset may have: one unit of
// it still fits into an int64.
const MaxExponent = 18

// maxScientific bounds the exponent of a JSON number, far above any amount and
// far below what costs time.
const maxScientific = 30

// ParseMinor reads an amount that is written in minor units: "1000" is 1000.
// It takes ASCII digits only. A decimal point is ErrAmountFormat even in
// "12.00": whoever writes it may well mean major units.
func ParseMinor(text string) (int64, error) {
	if !digitsOnly(text) {
		return 0, malformed(text, minorForm)
	}
	return scale(text, text, 0)
}

// ParseMinorNumber is ParseMinor for the text of a JSON number, where 1.25e3 is
// another spelling of 1250. An exponent beyond ±30 is ErrAmountFormat.
func ParseMinorNumber(text string) (int64, error) {
	mantissa, power, err := cutScientific(text)
	if err != nil {
		return 0, err
	}
	if mantissa == text {
		return ParseMinor(text)
	}
	amount, err := parseDecimal(text, mantissa, power)
	return amount, precise(err, 0)
}

// ParseMajor reads an amount that is written in major units of an asset with
// exponent decimals: "19.99" is 1999 where exponent is 2. Zeros in excess are
// fine ("1000.00" with exponent 0 is 1000), other digits in excess are
// ErrAmountPrecision. Signs, separators, blanks, exponents, digits outside
// ASCII and a point without digits on both sides are ErrAmountFormat.
func ParseMajor(text string, exponent int) (int64, error) {
	if err := checkExponent(exponent); err != nil {
		return 0, err
	}
	amount, err := parseDecimal(text, text, exponent)
	return amount, precise(err, exponent)
}

// ParseMajorNumber is ParseMajor for the text of a JSON number, where 1.999e1
// is another spelling of 19.99. An exponent beyond ±30 is ErrAmountFormat.
func ParseMajorNumber(text string, exponent int) (int64, error) {
	if err := checkExponent(exponent); err != nil {
		return 0, err
	}
	mantissa, power, err := cutScientific(text)
	if err != nil {
		return 0, err
	}
	amount, err := parseDecimal(text, mantissa, exponent+power)
	return amount, precise(err, exponent)
}

// Rescale turns an amount counted with from decimals into one with to: 1000 with
// two decimals is 10 with none. A negative amount keeps its sign. A rest, and
// decimals outside 0..MaxExponent, are ErrAmountPrecision; what exceeds 64 bits is
// ErrAmountOverflow.
func Rescale(amount int64, from, to int) (int64, error) {
	if err := errors.Join(checkExponent(from), checkExponent(to)); err != nil {
		return 0, err
	}
	scaled := amount
	for range from - to {
		if scaled%10 != 0 {
			return 0, wrong(ErrAmountPrecision, FormatMinor(amount, from))
		}
		scaled /= 10
	}
	for range to - from {
		if scaled > math.MaxInt64/10 || scaled < math.MinInt64/10 {
			return 0, wrong(ErrAmountOverflow, strconv.FormatInt(amount, 10))
		}
		scaled *= 10
	}
	return scaled, nil
}

// FormatMinor writes an amount of minor units with exponent decimals:
// FormatMinor(1999, 2) is "19.99", FormatMinor(-5, 2) is "-0.05". An exponent
// outside 0..MaxExponent counts as the nearest bound.
func FormatMinor(amount int64, exponent int) string {
	return pointed(strconv.FormatInt(amount, 10), exponent)
}

// FormatTotal is FormatMinor for a sum of any size.
func FormatTotal(total *big.Int, exponent int) string {
	return pointed(total.String(), exponent)
}

// pointed sets the point into digits that may have a sign.
func pointed(digits string, exponent int) string {
	exponent = min(max(exponent, 0), MaxExponent)
	digits, negative := strings.CutPrefix(digits, "-")
	sign := ""
	if negative {
		sign = "-"
	}
	if exponent == 0 {
		return sign + digits
	}
	if missing := exponent + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	point := len(digits) - exponent
	return sign + digits[:point] + "." + digits[point:]
}

// cutScientific splits a JSON number into mantissa and power of ten.
func cutScientific(text string) (mantissa string, power int, err error) {
	e := strings.IndexAny(text, "eE")
	if e < 0 {
		return text, 0, nil
	}
	digits, sign := text[e+1:], 1
	switch {
	case strings.HasPrefix(digits, "+"):
		digits = digits[1:]
	case strings.HasPrefix(digits, "-"):
		digits, sign = digits[1:], -1
	}
	if !digitsOnly(digits) {
		return "", 0, malformed(text, majorForm)
	}
	power, err = strconv.Atoi(digits)
	if err != nil || power > maxScientific {
		return "", 0, fmt.Errorf("%w: the exponent exceeds %d", wrong(ErrAmountFormat, text), maxScientific)
	}
	return text[:e], sign * power, nil
}

// parseDecimal reads digits with at most one point, times ten to the power;
// text is what errors show.
func parseDecimal(text, decimal string, power int) (int64, error) {
	whole, fraction, point := strings.Cut(decimal, ".")
	if !digitsOnly(whole) || point && !digitsOnly(fraction) {
		return 0, malformed(text, majorForm)
	}
	return scale(text, whole+fraction, power-len(fraction))
}

// scale returns digits, which are all ASCII digits, times ten to the power.
func scale(text, digits string, power int) (int64, error) {
	for ; power < 0 && digits != ""; power++ {
		if digits[len(digits)-1] != '0' {
			return 0, wrong(ErrAmountPrecision, text)
		}
		digits = digits[:len(digits)-1]
	}
	var amount int64
	for _, digit := range []byte(digits) {
		d := int64(digit - '0')
		if amount > (math.MaxInt64-d)/10 {
			return 0, wrong(ErrAmountOverflow, text)
		}
		amount = amount*10 + d
	}
	for ; power > 0 && amount != 0; power-- {
		if amount > math.MaxInt64/10 {
			return 0, wrong(ErrAmountOverflow, text)
		}
		amount *= 10
	}
	return amount, nil
}

// digitsOnly reports whether text is one or more ASCII digits.
func digitsOnly(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(c rune) bool { return c < '0' || c > '9' })
}

// What is accepted as an amount.
const (
	minorForm = "minor units are digits alone, such as 1250"
	majorForm = "digits with at most one decimal point between them are accepted, such as 12.50"
)

// malformed says what is wrong with text as an amount, and what is accepted.
func malformed(text, form string) error {
	err := wrong(ErrAmountFormat, text)
	whole, fraction, point := strings.Cut(text, ".")
	switch {
	case text == "":
		return fmt.Errorf("%w is empty; %s", err, form)
	case text[0] == '-' || text[0] == '+':
		return fmt.Errorf("%w has a sign; %s", err, form)
	case form == minorForm && point && digitsOnly(whole) && digitsOnly(fraction):
		return fmt.Errorf("%w has a decimal point; %s", err, form)
	}
	return fmt.Errorf("%w; %s", err, form)
}

// precise adds to an error for too many decimals how many there may be.
func precise(err error, decimals int) error {
	if errors.Is(err, ErrAmountPrecision) {
		return fmt.Errorf("%w; at most %d are accepted", err, decimals)
	}
	return err
}

func checkExponent(exponent int) error {
	if exponent < 0 || exponent > MaxExponent {
		return fmt.Errorf("%w: %d decimals are outside 0..%d", ErrAmountPrecision, exponent, MaxExponent)
	}
	return nil
}

// wrong adds the start of the text to err; it comes from outside and may be long.
func wrong(err error, text string) error {
	const shown = 40
	if len(text) > shown {
		return fmt.Errorf("%w: %q and %d bytes more", err, text[:shown], len(text)-shown)
	}
	return fmt.Errorf("%w: %q", err, text)
}
