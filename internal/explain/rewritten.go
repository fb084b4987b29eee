package explain

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// rewritten are a JSON body as common encoders write it: the received one was
// parsed and written by another. Numbers keep their digits, and members their
// order unless the encoder sorts them.
func rewritten(data []byte) []change {
	root, err := parse(data)
	if err != nil {
		return nil
	}
	has := traits{}
	has.look(root, 1)
	var list []change
	for _, s := range styles(has) {
		text := s.write(nil, root, "\n")
		for _, end := range [...]struct{ text, what string }{{"", ""}, {"\n", " and a newline after it"}, {"\r\n", " and a line end (CRLF) after it"}} {
			list = append(list, change{append(text[:len(text):len(text)], end.text...), "as JSON written " + s.String() + end.what, keepRaw})
		}
	}
	return list
}

// style is how an encoder writes JSON.
type style struct {
	layout                      layout
	slash, ascii, html, ordered bool
}

// layout is the white space between tokens.
type layout struct{ name, colon, comma, indent string }

var layouts = [...]layout{
	{name: "without spaces", colon: ":", comma: ","},
	{name: "with a space after colons and commas", colon: ": ", comma: ", "},
	{name: "indented by two spaces", colon: ": ", comma: ",", indent: "  "},
	{name: "indented by four spaces", colon: ": ", comma: ",", indent: "    "},
	{name: "indented by tabs", colon: ": ", comma: ",", indent: "\t"},
}

// styles are the ways of writing that differ for a body with these traits.
func styles(has traits) []style {
	list := make([]style, 0, len(layouts))
	for _, l := range layouts {
		if l.indent == "" || !has.deep {
			list = append(list, style{layout: l})
		}
	}
	for _, t := range [...]struct {
		has bool
		set func(*style)
	}{
		{has.slash, func(s *style) { s.slash = true }},
		{has.foreign, func(s *style) { s.ascii = true }},
		{has.html, func(s *style) { s.html = true }},
		{has.unordered, func(s *style) { s.ordered = true }},
	} {
		if !t.has {
			continue
		}
		for _, s := range slices.Clone(list) {
			t.set(&s)
			list = append(list, s)
		}
	}
	return list
}

func (s style) String() string {
	text := s.layout.name
	for _, t := range [...]struct {
		is   bool
		text string
	}{
		{s.slash, `\/ for slashes`}, {s.ascii, `\u escapes for what is not ASCII`},
		{s.html, `\u escapes for <, > and &`}, {s.ordered, "its members sorted"},
	} {
		if t.is {
			text += ", with " + t.text
		}
	}
	return text
}

// traits are what makes encoders differ.
type traits struct{ slash, foreign, html, unordered, deep bool }

// maxIndented is how deep a document may be that is tried with indentation, which
// grows with the square of the depth.
const maxIndented = 64

func (t *traits) look(value any, depth int) {
	t.deep = t.deep || depth > maxIndented
	switch v := value.(type) {
	case object:
		for i, m := range v {
			t.look(m.name, depth)
			t.look(m.value, depth+1)
			t.unordered = t.unordered || i > 0 && v[i-1].name > m.name
		}
	case []any:
		for _, item := range v {
			t.look(item, depth+1)
		}
	case string:
		t.slash = t.slash || strings.Contains(v, "/")
		t.html = t.html || strings.ContainsAny(v, "<>&\u2028\u2029")
		t.foreign = t.foreign || strings.ContainsFunc(v, func(r rune) bool { return r >= utf8.RuneSelf })
	}
}

// object is a JSON object whose members keep their order.
type object []member

type member struct {
	name  string
	value any
}

// parse reads one JSON document.
func parse(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	root, err := read(d)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one document")
	}
	return root, nil
}

func read(d *json.Decoder) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('['):
		list := []any{}
		for d.More() {
			item, err := read(d)
			if err != nil {
				return nil, err
			}
			list = append(list, item)
		}
		_, err = d.Token()
		return list, err
	case json.Delim('{'):
		members := object{}
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return nil, err
			}
			value, err := read(d)
			if err != nil {
				return nil, err
			}
			members = append(members, member{fmt.Sprint(name), value})
		}
		_, err = d.Token()
		return members, err
	}
	return token, nil
}

// write appends a value; line is a newline and the indentation where it stands.
func (s style) write(out []byte, value any, line string) []byte {
	switch v := value.(type) {
	case object:
		if s.ordered {
			v = slices.Clone(v)
			slices.SortStableFunc(v, func(a, b member) int { return strings.Compare(a.name, b.name) })
		}
		return s.list(out, '{', '}', len(v), line, func(out []byte, i int, line string) []byte {
			out = append(s.text(out, v[i].name), s.layout.colon...)
			return s.write(out, v[i].value, line)
		})
	case []any:
		return s.list(out, '[', ']', len(v), line, func(out []byte, i int, line string) []byte {
			return s.write(out, v[i], line)
		})
	case string:
		return s.text(out, v)
	case nil:
		return append(out, "null"...)
	}
	return fmt.Append(out, value) // a json.Number or a bool
}

func (s style) list(out []byte, open, end byte, n int, line string, item func([]byte, int, string) []byte) []byte {
	out = append(out, open)
	inner := line + s.layout.indent
	for i := range n {
		if i > 0 {
			out = append(out, s.layout.comma...)
		}
		if s.layout.indent != "" {
			out = append(out, inner...)
		}
		out = item(out, i, inner)
	}
	if n > 0 && s.layout.indent != "" {
		out = append(out, line...)
	}
	return append(out, end)
}

func (s style) text(out []byte, text string) []byte {
	const short = "\b\f\n\r\t\"\\"
	out = append(out, '"')
	for _, r := range text {
		i := strings.IndexRune(short, r)
		switch {
		case i >= 0:
			out = append(out, '\\', `bfnrt"\`[i])
		case r == '/' && s.slash:
			out = append(out, `\/`...)
		case r < ' ', s.ascii && r >= utf8.RuneSelf, s.html && strings.ContainsRune("<>&\u2028\u2029", r):
			out = escape(out, r)
		default:
			out = utf8.AppendRune(out, r)
		}
	}
	return append(out, '"')
}

// escape writes \u escapes, two of them for what lies past U+FFFF.
func escape(out []byte, r rune) []byte {
	if r > 0xFFFF {
		r -= 0x10000
		out = fmt.Appendf(out, `\u%04x`, 0xD800+r>>10)
		r = 0xDC00 + r&0x3FF
	}
	return fmt.Appendf(out, `\u%04x`, r)
}
