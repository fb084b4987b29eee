package provider

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/jsondoc"
	"github.com/onceledger/onceledger/pkg/envelope"
)

var errLocator = errors.New(`say "header:X-Name" or "body:path.to.member"`)

// locator says where a value of an event stands: in the first present of some
// headers, at a path of the body, or where only presets look. Its zero value
// finds nothing.
type locator struct {
	headers  []string // canonical names
	path     []string
	others   [][]string // more paths, where path leads to nothing
	batch    []string   // a path beside the items of a batch
	query    string
	hash     bool
	optional bool
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

// mustLocator reads a preset's own text.
func mustLocator(text string) locator {
	text, optional := strings.CutSuffix(text, "?")
	kind, rest, _ := strings.Cut(text, ":")
	var l locator
	switch kind {
	case "query":
		l.query = rest
	case "batch":
		l.batch = strings.Split(rest, ".")
	case "hash":
		l.hash = true
	default:
		first, others, _ := strings.Cut(text, ",")
		if kind == "header" {
			first, others = text, ""
		}
		var err error
		if l, err = parseLocator(first); err != nil {
			panic(text)
		}
		for other := range strings.SplitSeq(others, ",") {
			if other != "" {
				l.others = append(l.others, strings.Split(other, "."))
			}
		}
	}
	l.optional = optional
	return l
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
func (l locator) set() bool {
	return l.headers != nil || l.path != nil || l.batch != nil || l.query != "" || l.hash
}

// find returns the value at l as jsondoc types it. A header given twice, or not
// in UTF-8, is no text, and so jsondoc.Unstorable.
func (r *reading) find(l locator) any {
	for _, name := range l.headers {
		switch values := r.req.Header[name]; {
		case len(values) == 0:
		case len(values) > 1 || !utf8.ValidString(values[0]):
			return jsondoc.Unstorable(values[0])
		default:
			return values[0]
		}
	}
	switch {
	case l.path != nil:
		value, _ := jsondoc.Lookup(r.doc, l.path...)
		for i := 0; value == nil && i < len(l.others); i++ {
			value, _ = jsondoc.Lookup(r.doc, l.others[i]...)
		}
		return value
	case l.batch != nil:
		value, _ := jsondoc.Lookup(r.batch, l.batch...)
		return value
	case l.query != "":
		return queryValue(r.req.Query, l.query)
	case l.hash:
		sum := sha256.Sum256(r.data)
		return hex.EncodeToString(sum[:16])
	}
	return nil
}

// queryValue returns the one value of a query parameter, nil where it is
// absent, repeated or misspelt.
func queryValue(query, name string) any {
	const most = 64
	if strings.Count(query, "&") > most {
		return nil
	}
	values, err := url.ParseQuery(query)
	if err != nil || len(values[name]) != 1 {
		return nil
	}
	if value := values[name][0]; utf8.ValidString(value) {
		return value
	}
	return jsondoc.Unstorable(values[name][0])
}

// locate sets the source's locators: what the configuration says, or else the
// preset. Only the id of a preset is not to be overruled: it is what makes an
// event happen once.
func (s *Source) locate(f *faults) {
	src, p := f.src, s.preset
	parse := func(key string, text config.Text, preset string) locator {
		if text.Value == "" && preset != "" {
			return mustLocator(preset)
		}
		l, err := parseLocator(text.Value)
		if err != nil {
			f.add(text.Pos, key, "%q is no place in a request; %v", text.Value, err)
		}
		return l
	}

	switch {
	case (p.hint || len(p.id) > 0) && src.ID.Value != "":
		f.add(src.ID.Pos, "id", "provider %s knows where the event id is; leave it out", p.name)
	case p.hint:
	case len(p.id) > 0:
		for _, text := range p.id {
			s.id = append(s.id, mustLocator(text))
		}
	case src.ID.Value == "":
		f.add(src.Pos, "id", "is needed: where does an event keep the id that its repeats share? %v", errLocator)
	default:
		s.id = []locator{parse("id", src.ID, "")}
	}
	s.account = parse("account", src.Account, p.account)
	s.live = parse("live_mode", src.LiveMode, p.live)
	s.occurred = parse("time", src.Time, p.occurred)
	if src.Type.Value != "" {
		s.typ = []locator{parse("type", src.Type, "")}
	} else {
		for _, text := range p.typ {
			s.typ = append(s.typ, mustLocator(text))
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
	for _, l := range slices.Concat(s.id, []locator{s.account, s.live, s.occurred}, s.typ) {
		if l.path != nil {
			paths = append(append(paths, l.path), l.others...)
		}
		for _, name := range l.headers {
			if len(s.keep) < envelope.MaxHeaders && !slices.Contains(s.keep, name) {
				s.keep = append(s.keep, name)
			}
		}
	}
	for _, text := range s.preset.thinPaths {
		paths = append(paths, strings.Split(text, "."))
	}
	s.paths = jsondoc.NewPaths(paths...)
}
