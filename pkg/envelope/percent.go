package envelope

import "strings"

const upperHex = "0123456789ABCDEF"

// encodeAttribute writes a CloudEvents attribute as the NATS binding says:
// space, double quote, percent and all bytes outside U+0021 to U+007E become
// percent-encoded UTF-8.
func encodeAttribute(s string) string {
	return percentEncode(s, func(_ int, c byte) bool {
		return c > ' ' && c <= '~' && c != '"' && c != '%'
	})
}

// EncodeText writes any text as a header that is no attribute, so that it stays readable:
// like encodeAttribute, but inner spaces and double quotes stand as they are.
// (NATS trims spaces at both ends, so those are encoded.)
func EncodeText(s string) string {
	return percentEncode(s, func(i int, c byte) bool {
		if c == ' ' {
			return i > 0 && i < len(s)-1
		}
		return c > ' ' && c <= '~' && c != '%'
	})
}

func percentEncode(s string, plain func(i int, c byte) bool) string {
	first := 0
	for first < len(s) && plain(first, s[first]) {
		first++
	}
	if first == len(s) {
		return s
	}

	var b strings.Builder
	b.Grow(len(s) + 16)
	b.WriteString(s[:first])
	for i := first; i < len(s); i++ {
		if c := s[i]; plain(i, c) {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteByte(upperHex[c>>4])
			b.WriteByte(upperHex[c&0xf])
		}
	}
	return b.String()
}

// DecodeText is the inverse of both encodings. It reports false for a byte that must have been
// encoded and a percent sign without two hex digits; whether the result is text
// is for validate.
func DecodeText(s string) (string, bool) {
	escapes := 0
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ' || c > '~':
			return "", false
		case c == '%':
			escapes++
		}
	}
	if escapes == 0 {
		return s, true
	}

	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b = append(b, s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", false
		}
		high, low := unhex(s[i+1]), unhex(s[i+2])
		if high < 0 || low < 0 {
			return "", false
		}
		b = append(b, byte(high<<4|low))
		i += 2
	}
	return string(b), true
}

// unhex returns the value of a hex digit, or -1.
func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
