package config

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// style is how a scalar is written in the file, as far as its spelling differs
// from its value.
type style int

const (
	plain style = iota
	singleQuoted
	doubleQuoted
)

// origin is the file a Text was read from. Secrets may stand there, so its
// lines are behind a function, which fmt does not look into.
type origin struct {
	lines func() []string
	style style
}

// At returns the place in the file of a place in Value: line counts from 1 and
// column, in characters, from 0, as CEL counts them. It sees through folding,
// indentation and quoting; an escape like \u00e9 is stepped over as a whole.
func (t Text) At(line, column int) Pos {
	if t.origin == nil {
		return t.beside(line, column)
	}
	before, ok := inkBefore(t.Value, line, column)
	if !ok {
		return t.beside(line, column)
	}
	if pos, ok := t.origin.find(t.Pos, before); ok {
		return pos
	}
	return t.beside(line, column)
}

// beside is At for text whose spelling is its value.
func (t Text) beside(line, column int) Pos {
	return Pos{Line: t.Pos.Line + line - 1, Column: t.Pos.Column + column}
}

// inkBefore counts the characters of value before line and column that are not
// white space; folding changes white space alone. It reports false where the
// place itself is white space or outside.
func inkBefore(value string, line, column int) (count int, ok bool) {
	for ; line > 1; line-- {
		head, rest, more := strings.Cut(value, "\n")
		if !more {
			return 0, false
		}
		count += ink(head)
		value = rest
	}
	for _, r := range value {
		if column == 0 {
			return count, !unicode.IsSpace(r)
		}
		if r == '\n' {
			return 0, false
		}
		if !unicode.IsSpace(r) {
			count++
		}
		column--
	}
	return 0, false
}

func ink(text string) (count int) {
	for _, r := range text {
		if !unicode.IsSpace(r) {
			count++
		}
	}
	return count
}

// find returns the place of the character that is not white space with count
// such characters before it, from start on.
func (o *origin) find(start Pos, count int) (Pos, bool) {
	lines := o.lines()
	for i := start.Line - 1; i < len(lines); i++ {
		column, rest := 1, lines[i]
		if i == start.Line-1 {
			for ; column < start.Column && rest != ""; column++ {
				_, size := utf8.DecodeRuneInString(rest)
				rest = rest[size:]
			}
		}
		for rest != "" {
			size, space := o.next(rest)
			if !space {
				if count == 0 {
					return Pos{Line: i + 1, Column: column}, true
				}
				count--
			}
			column += utf8.RuneCountInString(rest[:size])
			rest = rest[size:]
		}
	}
	return Pos{}, false
}

// next returns the length in bytes of the spelling of one character, and
// whether that character is white space.
func (o *origin) next(text string) (size int, space bool) {
	switch {
	case o.style == singleQuoted && strings.HasPrefix(text, "''"):
		return 2, false
	case o.style == doubleQuoted && text[0] == '\\' && len(text) > 1:
		switch text[1] {
		case 'x':
			return min(4, len(text)), false
		case 'u':
			return min(6, len(text)), false
		case 'U':
			return min(10, len(text)), false
		}
		_, size = utf8.DecodeRuneInString(text[1:])
		return 1 + size, strings.ContainsRune("tnvr \tN_LP", rune(text[1]))
	}
	r, size := utf8.DecodeRuneInString(text)
	return size, unicode.IsSpace(r)
}
