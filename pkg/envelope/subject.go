package envelope

import "strings"

const (
	maxTokens = 8  // of the type; what follows is left out of the subject
	maxToken  = 64 // characters; the rest of a token is left out
)

// Subject returns the subject an event of this source and type is published
// to: events.<source>.<type…>, with one token for each part of the type between
// dots. A character that is not a letter of ASCII, a digit, "_" or "-" becomes
// "_", an empty token too, and an empty type is "unknown".
//
// Subjects are for routing and reading: different types may share one, and the
// true type stands in the message's header.
func Subject(source, typ string) string {
	var b strings.Builder
	b.Grow(len("events.") + len(source) + 1 + len(typ))
	b.WriteString("events.")
	writeToken(&b, source)
	if typ == "" {
		b.WriteString(".unknown")
		return b.String()
	}

	for range maxTokens {
		token, rest, more := strings.Cut(typ, ".")
		b.WriteByte('.')
		writeToken(&b, token)
		if !more {
			break
		}
		typ = rest
	}
	return b.String()
}

// Token returns text as one safe token of a subject, by the same rules.
func Token(text string) string {
	var b strings.Builder
	writeToken(&b, text)
	return b.String()
}

func writeToken(b *strings.Builder, token string) {
	if token == "" {
		b.WriteByte('_')
		return
	}
	n := 0
	for _, r := range token {
		if n == maxToken {
			return
		}
		if r < 0x80 && (wordByte(byte(r)) || r == '_') {
			b.WriteByte(byte(r))
		} else {
			b.WriteByte('_')
		}
		n++
	}
}

// wordByte reports whether c is a letter of ASCII, a digit or a hyphen.
func wordByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-'
}
