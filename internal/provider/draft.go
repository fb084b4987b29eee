package provider

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/onceledger/onceledger/internal/body"
	"github.com/onceledger/onceledger/internal/jsondoc"
)

// draft is a preset's sample while its members are set: JSON, a form, or XML.
type draft struct {
	header http.Header
	root   any         // JSON; XML, as body.ReadXML reads it
	item   any         // where paths begin: root, or the one item of a batch
	form   [][2]string // in the order of the fields
	// xml is the document in root; nil: it is JSON. It is root itself, or where a
	// form has it, a member of root, so that paths are those that rules write.
	xml map[string]any
}

// spot is one place of a draft.
type spot struct {
	header string
	path   []string
	beside bool // path begins beside the items of a batch
}

// draft returns the preset's sample under an event id.
func (s *Source) draft(id string) (*draft, error) {
	p := s.preset
	d := &draft{header: http.Header{}}
	for name, value := range p.sampleHeader {
		d.header.Set(name, value)
	}
	switch body.FormatOf([]byte(p.sample)) {
	case body.FormatXML:
		doc, err := body.ReadXML([]byte(s.filled(id, xmlText)))
		if err != nil {
			return nil, fmt.Errorf("read sample: %w", err)
		}
		d.xml, d.root = doc, doc
		for _, inner := range p.kind.Inner {
			d.root, _ = put(map[string]any{}, inner.Path, doc) // into an object anything fits
		}
		d.item = d.root
		return d, nil
	case body.FormatForm:
		form, err := body.ReadForm([]byte(s.filled(id, url.QueryEscape)))
		if err != nil {
			return nil, fmt.Errorf("read sample: %w", err)
		}
		for _, field := range form {
			d.form = append(d.form, [2]string{string(field.Name), string(field.Value)})
		}
		return d, nil
	}
	var err error
	if d.root, err = decodeJSON(s.filled(id, jsonText)); err != nil {
		return nil, fmt.Errorf("read sample: %w", err)
	}
	d.item = d.root
	switch p.batch {
	case "":
	case ".":
		d.item, _ = jsondoc.Lookup(d.root, "0")
	default:
		d.item, _ = jsondoc.Lookup(d.root, p.batch, "0")
	}
	return d, nil
}

// filled returns the sample with its placeholders filled in.
func (s *Source) filled(id string, escape func(string) string) string {
	sum := sha256.Sum256([]byte(id))
	number := 100_000_000 + binary.BigEndian.Uint64(sum[:])%900_000_000
	return strings.NewReplacer(
		"{id}", escape(id), "{number}", strconv.FormatUint(number, 10), "{audience}", escape(s.audience),
	).Replace(s.preset.sample)
}

func jsonText(text string) string {
	quoted, _ := json.Marshal(text) // text is text
	return string(quoted[1 : len(quoted)-1])
}

func xmlText(text string) string {
	var escaped strings.Builder
	_ = xml.EscapeText(&escaped, []byte(text)) // a Builder takes it all
	return escaped.String()
}

// parseSpot reads a place: "header:X-Name", "batch:a.b", "body:a.b", or "a.b".
func parseSpot(text string) (spot, bool) {
	kind, rest, _ := strings.Cut(text, ":")
	at := spot{beside: kind == "batch"}
	switch kind {
	case "header":
		at.header = rest
		return at, headerName(rest)
	case "batch", "body":
		text = rest
	}
	at.path = strings.Split(text, ".")
	return at, !slices.Contains(at.path, "")
}

// resolve returns the place where l finds something, with what stands there, or
// else the first where it looks.
func (d *draft) resolve(l locator) (spot, any) {
	var spots []spot
	for _, name := range l.headers {
		spots = append(spots, spot{header: name})
	}
	if l.path != nil {
		spots = append(spots, spot{path: l.path})
	}
	for _, path := range l.others {
		spots = append(spots, spot{path: path})
	}
	if l.batch != nil {
		spots = append(spots, spot{path: l.batch, beside: true})
	}
	for _, at := range spots {
		if value := d.get(at); value != nil {
			return at, value
		}
	}
	if len(spots) == 0 {
		return spot{}, nil
	}
	return spots[0], nil
}

// there returns those of places that the draft has.
func (d *draft) there(places []locator) []locator {
	var there []locator
	for _, l := range places {
		if _, value := d.resolve(l); value != nil {
			there = append(there, l)
		}
	}
	return there
}

// base is where the path of a place begins.
func (d *draft) base(at spot) any {
	if at.beside {
		return d.root
	}
	return d.item
}

// get returns what stands at a place, nil for nothing.
func (d *draft) get(at spot) any {
	if at.header != "" {
		if value := d.header.Get(at.header); value != "" {
			return value
		}
		return nil
	}
	if i := d.field(at); i >= 0 {
		return d.form[i][1]
	}
	value, _ := jsondoc.Lookup(d.base(at), at.path...)
	return value
}

// field returns the index of a form's field, -1 if there is none.
func (d *draft) field(at spot) int {
	name := strings.Join(at.path, ".")
	return slices.IndexFunc(d.form, func(field [2]string) bool { return field[0] == name })
}

// set writes a value, with the objects on the way to it.
func (d *draft) set(at spot, value any) error {
	switch {
	case at.header != "":
		d.header.Set(at.header, fmt.Sprint(value))
		return nil
	case d.form != nil:
		i := d.field(at)
		if i < 0 {
			i = len(d.form)
			d.form = append(d.form, [2]string{strings.Join(at.path, ".")})
		}
		d.form[i][1] = fmt.Sprint(value)
		return nil
	}
	if d.xml != nil {
		value = fmt.Sprint(value) // all that elements hold
	}
	_, err := put(d.base(at), at.path, value)
	return err
}

// remove takes away what stands at a place.
func (d *draft) remove(at spot) {
	if at.header != "" {
		d.header.Del(at.header)
		return
	}
	if i := d.field(at); i >= 0 {
		d.form = slices.Delete(d.form, i, i+1)
		return
	}
	last := len(at.path) - 1
	around, _ := jsondoc.Lookup(d.base(at), at.path[:last]...)
	if object, ok := around.(map[string]any); ok {
		delete(object, at.path[last])
	}
}

// bytes returns the body.
func (d *draft) bytes() ([]byte, error) {
	switch {
	case d.xml != nil:
		return d.document()
	case d.form != nil:
		pairs := make([]string, len(d.form))
		for i, field := range d.form {
			pairs[i] = url.QueryEscape(field[0]) + "=" + url.QueryEscape(field[1])
		}
		return []byte(strings.Join(pairs, "&")), nil
	}
	return encodeJSON(d.root)
}
