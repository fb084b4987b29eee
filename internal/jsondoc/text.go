package jsondoc

import (
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// quick marks the bytes a string may hold that need no further thought: ASCII
// without control characters, quote and backslash.
var quick = func() (t [256]bool) {
	for c := 0x20; c < 0x80; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// text steps over the string at pos and returns what stands between its quotes,
// and whether that is plain: ASCII without escapes.
func (s *scanner) text() (raw []byte, plain bool, err error) {
	s.pos++
	start, plain := s.pos, true
	data, i := s.data, s.pos
	for i < len(data) {
		c := data[i]
		if quick[c] {
			i++
			continue
		}
		switch {
		case c == '"':
			s.pos = i + 1
			return data[start:i], plain, nil
		case c == '\\':
			n := escapeLen(data[i:])
			if n == 0 {
				return nil, false, fmt.Errorf("%w: bad escape at byte %d", ErrSyntax, i)
			}
			plain = false
			i += n
		case c < 0x20:
			return nil, false, fmt.Errorf("%w: control character in a string at byte %d", ErrSyntax, i)
		default:
			plain = false
			i++
		}
	}
	return nil, false, fmt.Errorf("%w: end of data in a string", ErrSyntax)
}

// escapeLen is the length of the escape b starts with, 0 if it is none.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if hex4(b[2:]) >= 0 {
			return 6
		}
	}
	return 0
}

// hex4 is the value of the four hex digits b starts with, -1 if they are none.
func hex4(b []byte) rune {
	if len(b) < 4 {
		return -1
	}
	var r rune
	for _, c := range b[:4] {
		switch {
		case '0' <= c && c <= '9':
			r = r<<4 | rune(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return -1
		}
	}
	return r
}

// decodeValue returns raw as a string or Unstorable.
func decodeValue(raw []byte, plain bool) any {
	if plain {
		return string(raw)
	}
	text, storable := unescape(raw, false)
	if !storable {
		return Unstorable(text)
	}
	return string(text)
}

// decodeName returns raw as valid UTF-8; a plain name is not copied.
func decodeName(raw []byte, plain bool) []byte {
	if plain {
		return raw
	}
	text, _ := unescape(raw, true)
	return text
}

// unescape decodes raw, whose escapes are well formed. It reports false if the
// text holds U+0000, a lone surrogate or invalid UTF-8; the last two are kept
// as bytes, or become U+FFFD if replace is set.
func unescape(raw []byte, replace bool) (text []byte, storable bool) {
	text, storable = make([]byte, 0, len(raw)), true
	for i := 0; i < len(raw); {
		r, n := utf8.DecodeRune(raw[i:])
		switch {
		case raw[i] == '\\':
			r, n = unescapeRune(raw[i:])
			storable = storable && r != 0
			if utf16.IsSurrogate(r) && !replace {
				storable = false
				text = append(text, 0xED, 0x80|byte(r>>6)&0x3F, 0x80|byte(r)&0x3F)
			} else {
				text = utf8.AppendRune(text, r)
			}
		case r == utf8.RuneError && n == 1 && !replace:
			storable = false
			text = append(text, raw[i])
		default:
			text = utf8.AppendRune(text, r)
		}
		i += n
	}
	return text, storable
}

// unescapeRune decodes the escape, or pair of surrogate escapes, that b starts
// with. A lone surrogate is returned as it is.
func unescapeRune(b []byte) (r rune, n int) {
	if b[1] != 'u' {
		switch b[1] {
		case 'b':
			return '\b', 2
		case 'f':
			return '\f', 2
		case 'n':
			return '\n', 2
		case 'r':
			return '\r', 2
		case 't':
			return '\t', 2
		}
		return rune(b[1]), 2
	}
	r = hex4(b[2:])
	if utf16.IsSurrogate(r) && len(b) >= 12 && b[6] == '\\' && b[7] == 'u' {
		if pair := utf16.DecodeRune(r, hex4(b[8:])); pair != utf8.RuneError {
			return pair, 12
		}
	}
	return r, 6
}
