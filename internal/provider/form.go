package provider

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/onceledger/onceledger/internal/jsondoc"
)

// maxFields bounds the fields of a form; the widest that providers send has 60.
const maxFields = 1000

// field is a name and a value of a form, both decoded.
type field struct{ name, value string }

// parseForm reads an application/x-www-form-urlencoded body in its order.
func parseForm(body []byte) ([]field, error) {
	var fields []field
	for part := range strings.SplitSeq(string(body), "&") {
		if part == "" {
			continue
		}
		if len(fields) == maxFields {
			return nil, fmt.Errorf("%w: more than %d fields in a form", jsondoc.ErrSyntax, maxFields)
		}
		name, value, _ := strings.Cut(part, "=")
		name, nameErr := url.QueryUnescape(name)
		value, valueErr := url.QueryUnescape(value)
		if nameErr != nil || valueErr != nil {
			return nil, fmt.Errorf("%w: a bad escape in a form", jsondoc.ErrSyntax)
		}
		fields = append(fields, field{name, value})
	}
	return fields, nil
}

// formView is the view of a form: an object of strings, a repeated name being a
// list of its values. Bytes that are no text stay as they are.
func formView(_ scheme, data []byte) ([]byte, error) {
	fields, err := parseForm(data)
	if err != nil {
		return nil, err
	}
	values := map[string][]string{}
	var names []string
	for _, f := range fields {
		if _, ok := values[f.name]; !ok {
			names = append(names, f.name)
		}
		values[f.name] = append(values[f.name], f.value)
	}
	view := []byte{'{'}
	for i, name := range names {
		if i > 0 {
			view = append(view, ',')
		}
		view = append(appendString(view, name), ':')
		if list := values[name]; len(list) == 1 {
			view = appendString(view, list[0])
		} else {
			view = append(view, '[')
			for j, value := range list {
				if j > 0 {
					view = append(view, ',')
				}
				view = appendString(view, value)
			}
			view = append(view, ']')
		}
	}
	return append(view, '}'), nil
}

// appendString writes text as a JSON string, its bytes unchanged: whoever reads
// it sees what is no UTF-8, instead of what somebody has put in its place.
func appendString(buf []byte, text string) []byte {
	const hex = "0123456789abcdef"
	buf = append(buf, '"')
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			buf = append(buf, '\\', c)
		case c < 0x20:
			buf = append(buf, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			buf = append(buf, c)
		}
	}
	return append(buf, '"')
}
