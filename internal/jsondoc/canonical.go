package jsondoc

import (
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
// and a power of ten.
func appendNumber(dst, literal []byte) []byte {
	n, ok := dissect(literal)
	switch {
	case !ok:
		return appendText(dst, 'N', string(literal))
	case len(n.digits) == 0:
		return append(dst, "n0;"...)
	case n.negative:
		dst = append(dst, "n-"...)
	default:
		dst = append(dst, 'n')
	}
	dst = append(append(dst, n.digits...), 'e')
	return append(strconv.AppendInt(dst, n.exponent, 10), ';')
}
