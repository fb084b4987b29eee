package config

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// maxText bounds every string of the file in bytes.
const maxText = 16 << 10

// text reads a string. With loose, numbers and booleans count as their
// spelling: `when: true` is an expression like any other.
func (r *reader) text(v value, loose bool) (Text, bool) {
	v, ok := r.resolve(v)
	if !ok {
		return Text{}, false
	}
	t := Text{origin: &origin{lines: func() []string { return r.lines }}}
	switch n := v.node.(type) {
	case *ast.StringNode:
		t.Value, t.Pos = n.Value, startPos(n)
		switch n.Token.Type {
		case token.SingleQuoteType:
			t.origin.style = singleQuoted
			t.Pos.Column++
		case token.DoubleQuoteType:
			t.origin.style = doubleQuoted
			t.Pos.Column++
		}
	case *ast.LiteralNode:
		t.Value, t.Pos = n.Value.Value, r.blockPos(n)
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		if !loose {
			r.fault(startPos(n), v.path, "must be a string, not %s; quote it", kind(n))
			return Text{}, false
		}
		t.Value, t.Pos = n.GetToken().Value, startPos(n)
	case nil, *ast.NullNode:
		r.fault(v.at, v.path, "has no value")
		return Text{}, false
	default:
		r.fault(v.at, v.path, "must be a string, not %s", kind(n))
		return Text{}, false
	}
	switch {
	case strings.TrimSpace(t.Value) == "":
		r.fault(t.Pos, v.path, "is empty")
	case len(t.Value) > maxText:
		r.fault(t.Pos, v.path, "has %d bytes; at most %d are allowed", len(t.Value), maxText)
	case !utf8.ValidString(t.Value) || strings.ContainsRune(t.Value, 0):
		r.fault(t.Pos, v.path, "holds a NUL or is not UTF-8")
	default:
		r.places[v.path] = t.Pos
		return t, true
	}
	return Text{}, false
}

// blockPos is the first character of a block scalar's content: the line below
// its indicator, right of the indentation that is cut off.
func (r *reader) blockPos(n *ast.LiteralNode) Pos {
	pos := Pos{Line: tokenPos(n.Start).Line + 1, Column: 1}
	value := strings.TrimLeft(n.Value.Value, "\n")
	kept := len(value) - len(strings.TrimLeft(value, " "))
	for _, line := range r.lines[min(pos.Line-1, len(r.lines)):] {
		if body := strings.TrimLeft(line, " "); body != "" {
			pos.Column = max(len(line)-len(body)-kept, 0) + 1
			break
		}
	}
	return pos
}

// integer reads a whole number within bounds.
func (r *reader) integer(v value, low, high int) (int, bool) {
	v, ok := r.resolve(v)
	if !ok {
		return 0, false
	}
	n, ok := v.node.(*ast.IntegerNode)
	if !ok {
		r.fault(r.scalarPos(v), v.path, "must be a whole number from %d to %d, not %s", low, high, describe(v.node))
		return 0, false
	}
	number, err := strconv.ParseInt(n.Token.Value, 10, 64)
	if err != nil || number < int64(low) || number > int64(high) {
		r.fault(startPos(n), v.path, "%s is outside %d to %d", n.Token.Value, low, high)
		return 0, false
	}
	return int(number), true
}

// boolean reads true or false.
func (r *reader) boolean(v value) (yes, ok bool) {
	if v, ok = r.resolve(v); !ok {
		return false, false
	}
	n, ok := v.node.(*ast.BoolNode)
	if !ok {
		r.fault(r.scalarPos(v), v.path, "must be true or false, not %s", describe(v.node))
		return false, false
	}
	return n.Value, true
}

// duration reads a Go duration like 30s or 1h30m within bounds.
func (r *reader) duration(v value, low, high time.Duration) (time.Duration, bool) {
	text, ok := r.measure(v, "a duration with a unit, for example 30s, 10m or 24h")
	if !ok {
		return 0, false
	}
	d, err := time.ParseDuration(text.Value)
	if err != nil {
		r.fault(text.Pos, v.path, "%q is not a duration with a unit, for example 30s, 10m or 24h", text.Value)
		return 0, false
	}
	if d < low || d > high {
		r.fault(text.Pos, v.path, "%s is outside %s to %s", text.Value, formatDuration(low), formatDuration(high))
		return 0, false
	}
	return d, true
}

var sizeUnits = []struct {
	suffix string
	bytes  int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}, {"", 1}}

// size reads a number of bytes like 1000000, 512KiB or 8GiB within bounds.
func (r *reader) size(v value, low, high int64) (int64, bool) {
	text, ok := r.measure(v, "a size, for example 1000000, 512KiB or 8GiB")
	if !ok {
		return 0, false
	}
	bytes, ok := parseSize(text.Value)
	if !ok {
		r.fault(text.Pos, v.path, "%q is not a size, for example 1000000, 512KiB or 8GiB", text.Value)
		return 0, false
	}
	if bytes < low || bytes > high {
		r.fault(text.Pos, v.path, "%s is outside %s to %s", text.Value, formatSize(low), formatSize(high))
		return 0, false
	}
	return bytes, true
}

// measure reads a scalar whose value may be spelled as a number or a string.
func (r *reader) measure(v value, want string) (Text, bool) {
	v, ok := r.resolve(v)
	if !ok {
		return Text{}, false
	}
	switch v.node.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode:
		return r.text(v, true)
	}
	r.fault(r.scalarPos(v), v.path, "must be %s, not %s", want, describe(v.node))
	return Text{}, false
}

// scalarPos is where a wrong value stands, and where it is named if it is
// nothing or more than a scalar.
func (r *reader) scalarPos(v value) Pos {
	if _, scalar := v.node.(ast.ScalarNode); scalar && !isNull(v.node) {
		return startPos(v.node)
	}
	return v.at
}

func parseSize(text string) (int64, bool) {
	for _, unit := range sizeUnits {
		digits, found := strings.CutSuffix(text, unit.suffix)
		if !found {
			continue
		}
		number, err := strconv.ParseUint(digits, 10, 63)
		if err != nil || number > uint64(1<<62)/uint64(unit.bytes) {
			return 0, false
		}
		return int64(number) * unit.bytes, true
	}
	return 0, false
}

func formatSize(bytes int64) string {
	for _, unit := range sizeUnits {
		if bytes >= unit.bytes && bytes%unit.bytes == 0 && unit.bytes > 1 {
			return strconv.FormatInt(bytes/unit.bytes, 10) + unit.suffix
		}
	}
	return strconv.FormatInt(bytes, 10)
}

// formatDuration is d without the zero units of time.Duration: 24h, not 24h0m0s.
func formatDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func describe(n ast.Node) string {
	if n == nil {
		return "nothing"
	}
	return kind(n)
}
