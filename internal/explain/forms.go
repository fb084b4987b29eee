package explain

import (
	"slices"
	"strings"

	"github.com/onceledger/onceledger/internal/body"
)

// forms are a form written again, as frameworks do that parse it.
func (q *inquiry) forms(data []byte) []change {
	contentType := strings.ToLower(q.request.Header.Get("Content-Type"))
	if !strings.HasPrefix(contentType, "application/x-www-form-urlencoded") {
		return nil
	}
	form, err := body.ReadForm(data)
	if err != nil {
		return nil
	}
	sorted := slices.Clone(form)
	slices.SortStableFunc(sorted, func(a, b body.Field) int { return strings.Compare(string(a.Name), string(b.Name)) })
	var list []change
	for _, order := range []struct {
		form body.Form
		what string
	}{{form, ""}, {sorted, ", with its fields sorted"}} {
		for _, w := range formWriters {
			list = append(list, change{w.write(order.form), "as a form written again " + w.what + order.what, keepRaw})
		}
	}
	return list
}

// formWriter is one way to escape a form. Letters, digits, and -._ are never escaped.
type formWriter struct {
	what  string
	plain string // what else is not
	space string // what a space is
	lower bool   // escapes in lower case
}

var formWriters = [...]formWriter{
	{"with + for spaces", "~", "+", false},
	{"with %20 for spaces", "~", "%20", false},
	{"as JavaScript does, with %20 for spaces", "~!*'()", "%20", false},
	{"as browsers do, with + for spaces", "*", "+", false},
	{"as PHP does, with + for spaces and ~ escaped", "", "+", false},
	{"with escapes in lower case and + for spaces", "~", "+", true},
	{"with escapes in lower case, as .NET does, and + for spaces", "!*()", "+", true},
}

func (w formWriter) write(form body.Form) []byte {
	var out []byte
	for i, field := range form {
		if i > 0 {
			out = append(out, '&')
		}
		out = append(w.escape(out, field.Name), '=')
		out = w.escape(out, field.Value)
	}
	return out
}

func (w formWriter) escape(out, text []byte) []byte {
	digits := "0123456789ABCDEF"
	if w.lower {
		digits = "0123456789abcdef"
	}
	for _, c := range text {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		switch {
		case letter || '0' <= c && c <= '9' || strings.IndexByte("-._", c) >= 0 || strings.IndexByte(w.plain, c) >= 0:
			out = append(out, c)
		case c == ' ':
			out = append(out, w.space...)
		default:
			out = append(out, '%', digits[c>>4], digits[c&15])
		}
	}
	return out
}
