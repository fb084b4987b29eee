package provider

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// The placeholders of a signed text. A configuration may use the first three.
const (
	bodyPart   = "{body}"
	stampPart  = "{timestamp}"
	idPart     = "{id}"
	methodPart = "{method}"
	urlPart    = "{url}"
	secretPart = "{secret}" // for plain hashes, which have no key of their own
	digestPart = "{sha256}" // SHA-256 of the body in hex
)

// template is a signed text: literals and placeholders in turn.
type template []string

// parseTemplate reads a text such as "{timestamp}.{body}" that may hold these
// placeholders.
func parseTemplate(text string, parts ...string) (template, error) {
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
		if !slices.Contains(parts, text[:end]) {
			return nil, fmt.Errorf("%q is no placeholder; there are {body}, {timestamp} and {id}", text)
		}
		t = append(t, text[:end])
		text = text[end:]
	}
	return t, nil
}

// mustTemplate is parseTemplate for a preset's own text.
func mustTemplate(text string) template {
	t, err := parseTemplate(text, bodyPart, stampPart, idPart, methodPart, urlPart, secretPart, digestPart)
	if err != nil {
		panic(err)
	}
	return t
}

// has reports whether the template holds this placeholder.
func (t template) has(part string) bool { return slices.Contains(t, part) }

// signed is what a template is filled with.
type signed struct {
	id, stamp, method, url string
	body                   []byte
}

// appendPart returns buf with part filled in; the body and the secret are not for it.
func (s *signed) appendPart(buf []byte, part string) []byte {
	switch part {
	case stampPart:
		return append(buf, s.stamp...)
	case idPart:
		return append(buf, s.id...)
	case methodPart:
		return append(buf, s.method...)
	case urlPart:
		return append(buf, s.url...)
	case digestPart:
		sum := sha256.Sum256(s.body)
		return hex.AppendEncode(buf, sum[:])
	}
	return append(buf, part...)
}

// message is the filled template in one piece, for schemes that cannot hash as
// they go.
func (t template) message(s *signed) []byte {
	message := make([]byte, 0, len(s.body)+len(s.url)+128)
	for _, part := range t {
		if part == bodyPart {
			message = append(message, s.body...)
		} else {
			message = s.appendPart(message, part)
		}
	}
	return message
}
