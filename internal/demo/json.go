package demo

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// object is a JSON object as its sender wrote it: members in an order. Values
// are objects, or the text of any other JSON value.
type object []member

type member struct {
	name  string
	value any // object, or raw JSON as a string
}

// text is the raw JSON of a plain string.
func text(s string) string { return strconv.Quote(s) }

// number is the raw JSON of an integer.
func number(n int64) string { return strconv.FormatInt(n, 10) }

// write returns the object as bytes.
func (o object) write() []byte {
	var b strings.Builder
	o.append(&b, "")
	return []byte(b.String())
}

// append writes o; space follows each separator.
func (o object) append(b *strings.Builder, space string) {
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteString("," + space)
		}
		b.WriteString(text(m.name) + ":" + space)
		if inner, ok := m.value.(object); ok {
			inner.append(b, space)
		} else {
			b.WriteString(m.value.(string))
		}
	}
	b.WriteByte('}')
}

// rewrite returns other bytes with the same meaning, as a provider writes them
// when it sends an event again: members in another order, a counter that went
// up, white space.
func (o object) rewrite(rng *rand.Rand) []byte {
	again := append(o.shuffled(rng), member{"delivery_attempt", number(2 + rng.Int64N(1_000_000))})
	var b strings.Builder
	again.append(&b, [...]string{"", " ", "\n  "}[rng.IntN(3)])
	return []byte(b.String())
}

func (o object) shuffled(rng *rand.Rand) object {
	o = slices.Clone(o)
	rng.Shuffle(len(o), func(i, j int) { o[i], o[j] = o[j], o[i] })
	for i, m := range o {
		if inner, ok := m.value.(object); ok {
			o[i].value = inner.shuffled(rng)
		}
	}
	return o
}
