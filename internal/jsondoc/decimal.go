package jsondoc

import (
	"bytes"
	"cmp"
)

// decimal is ±digits·10^exponent; digits have no zero at either end, and zero
// has none at all. The number itself is never written out, so that its exponent
// costs nothing.
type decimal struct {
	negative bool
	digits   []byte
	exponent int64
}

// Compare returns -1, 0 or 1 as a is less than, equal to or greater than b, by
// exact value. It reports false if an exponent has more than nine digits.
func Compare(a, b Number) (int, bool) {
	x, okX := dissect([]byte(a))
	y, okY := dissect([]byte(b))
	if !okX || !okY {
		return 0, false
	}
	if x.sign() != y.sign() || x.sign() == 0 {
		return cmp.Compare(x.sign(), y.sign()), true
	}
	// The position of the first digit decides, then the digits from there on.
	size := cmp.Or(
		cmp.Compare(x.exponent+int64(len(x.digits)), y.exponent+int64(len(y.digits))),
		bytes.Compare(x.digits, y.digits),
	)
	return size * x.sign(), true
}

func (d decimal) sign() int {
	switch {
	case len(d.digits) == 0:
		return 0
	case d.negative:
		return -1
	}
	return 1
}

// dissect reads a number literal; false if its exponent has more than nine
// digits and it is not zero.
func dissect(literal []byte) (decimal, bool) {
	var d decimal
	if literal[0] == '-' {
		d.negative, literal = true, literal[1:]
	}
	mantissa, exponent, ok := splitExponent(literal)
	if !ok {
		return decimal{}, false
	}
	digits := mantissa
	if point := bytes.IndexByte(mantissa, '.'); point >= 0 {
		exponent -= int64(len(mantissa) - point - 1)
		digits = make([]byte, 0, len(mantissa))
		digits = append(append(digits, mantissa[:point]...), mantissa[point+1:]...)
	}
	digits = bytes.TrimLeft(digits, "0")
	d.digits = bytes.TrimRight(digits, "0")
	d.exponent = exponent + int64(len(digits)-len(d.digits))
	return d, true
}

// splitExponent cuts an unsigned literal at its exponent.
func splitExponent(literal []byte) (mantissa []byte, exponent int64, ok bool) {
	const most = 9
	at := bytes.IndexAny(literal, "eE")
	if at < 0 {
		return literal, 0, true
	}
	mantissa, text := literal[:at], literal[at+1:]
	if len(bytes.Trim(mantissa, "0.")) == 0 {
		return mantissa, 0, true
	}
	negative := text[0] == '-'
	text = bytes.TrimLeft(bytes.TrimLeft(text, "+-"), "0")
	if len(text) > most {
		return nil, 0, false
	}
	for _, c := range text {
		exponent = exponent*10 + int64(c-'0')
	}
	if negative {
		exponent = -exponent
	}
	return mantissa, exponent, true
}
