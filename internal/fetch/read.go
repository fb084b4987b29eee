package fetch

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/onceledger/onceledger/internal/jsondoc"
)

// everything keeps a whole document.
var everything = jsondoc.NewPaths([]string{})

// document is JSON with its values.
type document struct {
	raw   []byte
	value any
}

func read(raw []byte) (document, error) {
	value, err := jsondoc.Scan(raw, everything)
	if err != nil {
		return document{}, fmt.Errorf("%w: read JSON: %w", ErrRefused, err)
	}
	return document{raw, value}, nil
}

// text returns a string or an integer, "" for everything else.
func (d document) text(path ...string) string {
	value, _ := jsondoc.Lookup(d.value, path...)
	switch v := value.(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	case jsondoc.Number:
		if !strings.ContainsAny(string(v), ".eE") {
			return string(v)
		}
	}
	return ""
}

// flag returns a boolean; known is false where there is none.
func (d document) flag(path ...string) (value, known bool) {
	found, _ := jsondoc.Lookup(d.value, path...)
	value, known = found.(bool)
	return value, known
}

// has reports whether there is a value that is not null.
func (d document) has(path ...string) bool {
	value, _ := jsondoc.Lookup(d.value, path...)
	return value != nil
}

// part returns what stands at a path, with its bytes as they are.
func (d document) part(path ...string) (document, bool) {
	value, ok := jsondoc.Lookup(d.value, path...)
	raw := d.raw
	for _, name := range path {
		var members map[string]json.RawMessage // names are told apart by case, as jsondoc does
		if json.Unmarshal(raw, &members) != nil {
			return document{}, false
		}
		raw = members[name]
	}
	return document{raw, value}, ok
}

// list returns the items of an array, none where there is no array.
func (d document) list(path ...string) []document {
	array, ok := d.part(path...)
	values, isArray := array.value.([]any)
	var raws []json.RawMessage
	if !ok || !isArray || json.Unmarshal(array.raw, &raws) != nil || len(raws) != len(values) {
		return nil
	}
	items := make([]document, len(raws))
	for i := range raws {
		items[i] = document{raws[i], values[i]}
	}
	return items
}

// instant returns a time in RFC 3339, the zero time for everything else.
func (d document) instant(path ...string) time.Time {
	text := d.text(path...)
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		at, _ = time.Parse("2006-01-02T15:04:05.000-0700", text)
	}
	return at.UTC()
}

// millis returns a time in milliseconds, the zero time for everything else.
func (d document) millis(path ...string) time.Time {
	n, err := strconv.ParseInt(d.text(path...), 10, 64)
	if err != nil || n <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(n).UTC()
}

// modeOf turns a flag that says live into a mode.
func modeOf(live, known bool) string {
	switch {
	case !known:
		return ""
	case live:
		return "live"
	}
	return "test"
}

// wordPattern is an id or a state that stays as it is in a path and in a key.
var wordPattern = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,200}$`)

// word returns a text that is an id or a state and nothing else: no slash, no
// colon, no dots that lead upwards.
func word(what, text string) (string, error) {
	if !wordPattern.MatchString(text) || strings.Trim(text, ".") == "" {
		return "", fmt.Errorf("%w: %s is missing, or is none", ErrRefused, what)
	}
	return text, nil
}

// join makes the id of a fact of its parts, each of which is a word.
func join(parts ...string) (string, error) {
	for _, part := range parts {
		if _, err := word("a part of its id", part); err != nil {
			return "", err
		}
	}
	return strings.Join(parts, ":"), nil
}

// same refuses an answer about another object than was asked for.
func same(got, want string) error {
	if got != want {
		return fmt.Errorf("%w: the answer is about another object than was asked for", ErrRefused)
	}
	return nil
}

func escape(text string) string { return url.PathEscape(text) }
