package provider

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/jsondoc"
	"github.com/onceledger/onceledger/pkg/envelope"
)

var errLocator = errors.New(`say "header:X-Name" or "body:path.to.member"`)

// locator says where a value of an event stands: in the first present of some
// headers, or at a path of the body. Its zero value finds nothing.
type locator struct {
	headers []string // canonical names
	path    []string
}

// parseLocator reads "header:X-Name", "header:X-Name,Y-Name" or "body:a.b".
// Empty text is the locator that finds nothing.
func parseLocator(text string) (locator, error) {
	if text == "" {
		return locator{}, nil
	}
	kind, rest, _ := strings.Cut(text, ":")
	switch kind {
	case "header":
		names := strings.Split(rest, ",")
		for i, name := range names {
			if !headerName(name) {
				return locator{}, errLocator
			}
			names[i] = http.CanonicalHeaderKey(name)
		}
		return locator{headers: names}, nil
	case "body":
		path := strings.Split(rest, ".")
		for _, member := range path {
			if member == "" {
				return locator{}, errLocator
			}
		}
		return locator{path: path}, nil
	}
	return locator{}, errLocator
}

// headerName reports whether name can be a request header that an event keeps:
// letters of ASCII, digits and hyphens.
func headerName(name string) bool {
	if name == "" || len(name) > envelope.MaxHeaderName {
		return false
	}
	for i := range len(name) {
		c := name[i]
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// set reports whether l can find anything.
func (l locator) set() bool { return l.headers != nil || l.path != nil }

// find returns the value as jsondoc types it. A header given twice, or not in
// UTF-8, is no text, and so jsondoc.Unstorable.
func (l locator) find(h http.Header, doc any) (any, bool) {
	for _, name := range l.headers {
		switch values := h[name]; {
		case len(values) == 0:
		case len(values) > 1 || !utf8.ValidString(values[0]):
			return jsondoc.Unstorable(values[0]), true
		default:
			return values[0], true
		}
	}
	if l.path == nil {
		return nil, false
	}
	return jsondoc.Lookup(doc, l.path...)
}

// locate sets the source's locators: what the configuration says, or else the
// preset. Only the id of a preset is not to be overruled: it is what makes an
// event happen once.
func (s *Source) locate(f *faults) {
	src, p := f.src, s.preset
	parse := func(key string, text config.Text, preset string) locator {
		if text.Value == "" {
			text.Value = preset
		}
		l, err := parseLocator(text.Value)
		if err != nil {
			f.add(text.Pos, key, "%q is no place in a request; %v", text.Value, err)
		}
		return l
	}

	switch {
	case p.id != "" && src.ID.Value != "":
		f.add(src.ID.Pos, "id", "provider %s knows where the event id is; leave it out", p.name)
	case p.id == "" && src.ID.Value == "":
		f.add(src.Pos, "id", "is needed: where does an event keep the id that its repeats share? %v", errLocator)
	}
	s.id = parse("id", src.ID, p.id)
	s.account = parse("account", src.Account, p.account)
	s.live = parse("live_mode", src.LiveMode, p.live)
	s.occurred = parse("time", src.Time, p.occurred)
	if src.Type.Value != "" {
		s.typ = []locator{parse("type", src.Type, "")}
	} else {
		for _, text := range p.typ {
			s.typ = append(s.typ, parse("type", src.Type, text))
		}
	}
	s.keepParts()
}

// keepParts derives from the locators which headers an event keeps, and which
// paths of its body are read.
func (s *Source) keepParts() {
	for _, name := range s.preset.keep {
		s.keep = append(s.keep, http.CanonicalHeaderKey(name))
	}
	var paths [][]string
	for _, l := range append([]locator{s.id, s.account, s.live, s.occurred}, s.typ...) {
		if l.path != nil {
			paths = append(paths, l.path)
		}
		for _, name := range l.headers {
			if len(s.keep) < envelope.MaxHeaders && !slices.Contains(s.keep, name) {
				s.keep = append(s.keep, name)
			}
		}
	}
	s.paths = jsondoc.NewPaths(paths...)
}
