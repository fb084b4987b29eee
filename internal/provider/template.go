package provider

import (
	"fmt"
	"slices"
	"strings"
)

// The placeholders of a signed text.
const (
	bodyPart  = "{body}"
	stampPart = "{timestamp}"
	idPart    = "{id}"
)

// template is a signed text: literals and placeholders in turn.
type template []string

// parseTemplate reads a text such as "{timestamp}.{body}".
func parseTemplate(text string) (template, error) {
	var t template
	for text != "" {
		open := strings.IndexByte(text, '{')
		if open < 0 {
			return append(t, text), nil
		}
		if open > 0 {
			t = append(t, text[:open])
			text = text[open:]
		}
		end := strings.IndexByte(text, '}') + 1
		switch text[:end] {
		case bodyPart, stampPart, idPart:
			t = append(t, text[:end])
		default:
			return nil, fmt.Errorf("%q is no placeholder; there are {body}, {timestamp} and {id}", text)
		}
		text = text[end:]
	}
	return t, nil
}

// mustTemplate is parseTemplate for a preset's own text.
func mustTemplate(text string) template {
	t, err := parseTemplate(text)
	if err != nil {
		panic(err)
	}
	return t
}

// has reports whether the template holds this placeholder.
func (t template) has(part string) bool { return slices.Contains(t, part) }

// signed is what a template is filled with.
type signed struct {
	id, stamp string
	body      []byte
}

// appendPart returns buf with part filled in; the body is not for it.
func (s signed) appendPart(buf []byte, part string) []byte {
	switch part {
	case stampPart:
		return append(buf, s.stamp...)
	case idPart:
		return append(buf, s.id...)
	}
	return append(buf, part...)
}
