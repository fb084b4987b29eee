package traffic

import (
	"slices"
	"strconv"
	"strings"
)

// object is a JSON object with its members in order, so that one meaning can be
// written in several ways.
type object []member

type member struct {
	name  string
	value any // string of JSON, or object
}

func text(s string) string  { return strconv.Quote(s) }
func number(n int64) string { return strconv.FormatInt(n, 10) }

// Forms is in how many ways one content is written.
const Forms = 4

// form writes the object: 0 as it is, others with other spaces and, from 2 on,
// its members turned round.
func (o object) form(n int) []byte {
	var b strings.Builder
	if n >= 2 {
		turned := slices.Clone(o)
		slices.Reverse(turned)
		o = turned
	}
	o.write(&b, strings.Repeat(" ", n%2))
	b.WriteString(strings.Repeat("\n", n/2))
	return []byte(b.String())
}

func (o object) write(b *strings.Builder, space string) {
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteString("," + space)
		}
		b.WriteString(text(m.name) + ":" + space)
		switch v := m.value.(type) {
		case object:
			v.write(b, space)
		case string:
			b.WriteString(v)
		}
	}
	b.WriteByte('}')
}

// with returns o with another value for the member of this name, at any depth.
func (o object) with(name, value string) object {
	out := slices.Clone(o)
	for i, m := range out {
		if inner, ok := m.value.(object); ok {
			out[i].value = inner.with(name, value)
		} else if m.name == name {
			out[i].value = value
		}
	}
	return out
}

// without returns o without the member of this name, at any depth.
func (o object) without(name string) object {
	var out object
	for _, m := range o {
		if m.name == name {
			continue
		}
		if inner, ok := m.value.(object); ok {
			m.value = inner.without(name)
		}
		out = append(out, m)
	}
	return out
}
