package jsondoc

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
)

// AppendCanonical appends an encoding of v, a value of Scan, that two values
// share exactly if they mean the same: members are sorted by name, and numbers
// are equal by value (100, 100.0 and 1e2), whatever their spelling. The kinds
// are told apart and lengths are written, so that no two sequences of values
// have the same bytes. It is meant to be hashed, not read.
//
// Numbers whose exponent has more than nine digits are compared as text.
func AppendCanonical(dst []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(dst, 'z')
	case bool:
		if v {
			return append(dst, 't')
		}
		return append(dst, 'f')
	case string:
		return appendText(dst, 's', v)
	case Unstorable:
		return appendText(dst, 'u', string(v))
	case int64:
		var digits [20]byte
		return appendNumber(dst, strconv.AppendInt(digits[:0], v, 10))
	case Number:
		return appendNumber(dst, []byte(v))
	case []any:
		dst = appendCount(dst, 'a', len(v))
		for _, element := range v {
			dst = AppendCanonical(dst, element)
		}
		return dst
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		dst = appendCount(dst, 'o', len(v))
		for _, name := range names {
			dst = AppendCanonical(appendText(dst, 's', name), v[name])
		}
		return dst
	}
	panic(fmt.Sprintf("jsondoc: %T is no value of Scan", v))
}

// AppendMissing appends what stands for a value that is not there: it differs
// from null and from every value.
func AppendMissing(dst []byte) []byte { return append(dst, 'm') }

func appendCount(dst []byte, kind byte, n int) []byte {
	return append(strconv.AppendInt(append(dst, kind), int64(n), 10), ':')
}

func appendText(dst []byte, kind byte, text string) []byte {
	return append(appendCount(dst, kind, len(text)), text...)
}

// appendNumber writes the literal as sign, digits without zeros at either end,
// and a power of ten. The power is arithmetic on an exponent of at most nine
// digits: the number itself is never written out.
func appendNumber(dst, literal []byte) []byte {
	sign, rest := "", literal
	if rest[0] == '-' {
		sign, rest = "-", rest[1:]
	}
	mantissa, exponent, ok := splitExponent(rest)
	if !ok {
		return appendText(dst, 'N', string(literal))
	}
	digits := make([]byte, 0, MaxNumber)
	if point := bytes.IndexByte(mantissa, '.'); point >= 0 {
		exponent -= int64(len(mantissa) - point - 1)
		digits = append(digits, mantissa[:point]...)
		digits = append(digits, mantissa[point+1:]...)
	} else {
		digits = append(digits, mantissa...)
	}
	digits = bytes.TrimLeft(digits, "0")
	if len(digits) == 0 {
		return append(dst, "n0;"...)
	}
	trimmed := bytes.TrimRight(digits, "0")
	exponent += int64(len(digits) - len(trimmed))

	dst = append(append(dst, 'n'), sign...)
	dst = append(append(dst, trimmed...), 'e')
	return append(strconv.AppendInt(dst, exponent, 10), ';')
}

// splitExponent cuts an unsigned literal at its exponent; false for one of more
// than nine digits, unless the number is zero.
func splitExponent(literal []byte) (mantissa []byte, exponent int64, ok bool) {
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
	if len(text) > 9 {
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
