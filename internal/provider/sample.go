package provider

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ErrNoPlace marks what the provider's sample has no member for.
var ErrNoPlace = errors.New("the sample has no member for it")

// Sample says what a made-up event holds; empty values leave what the preset's
// own sample has.
type Sample struct {
	// ID of the event. The same ID makes the same bytes, if all else is the same.
	ID string
	// Type of the event, as rules see it: sponsorship.created of GitHub, whose
	// parts stand in two places.
	Type string
	// Amount in the units the provider counts in, as the text of a number, and
	// Currency in the provider's spelling.
	Amount, Currency string
	// Set are members of the body, as place=value or place:=JSON. A place is a path as
	// rules write it (data.object.customer; of a batch, in its one item),
	// "header:X-Name", or "batch:name" beside the items. A value in double quotes is
	// text, and so is any where the sample has text; elsewhere one that is JSON is
	// written as JSON. After := it always is.
	Set []string
	// At is when it happened; zero leaves the sample's own time, long ago.
	At time.Time
}

// usualType is the type of events of which only the source says where it stands.
const usualType = "topup"

// Sample returns the body of a made-up event under this id, for Sign.
func (s *Source) Sample(id string) []byte {
	body, _, err := s.Compose(Sample{ID: id})
	if err != nil {
		panic(err) // It asks for nothing, and samples are constants.
	}
	return body
}

// Compose makes an event of this source for a try: the body, for Sign, and
// headers that come with the signed request. It is in the source's mode.
//
// Errors are about what was asked for, begin with its name in lower case, and
// wrap ErrNoPlace where the provider's bodies do not have it.
func (s *Source) Compose(o Sample) (body []byte, header http.Header, err error) {
	d, err := s.draft(o.ID)
	if err != nil {
		return nil, nil, err
	}
	if err := d.fit(s, o); err != nil {
		return nil, nil, fmt.Errorf("id: %w", err)
	}
	if o.Type != "" {
		if err := d.setType(s.typ, o.Type); err != nil {
			return nil, nil, fmt.Errorf("type: %w", err)
		}
	}
	if s.preset.lowerCurrency {
		o.Currency = strings.ToLower(o.Currency)
	}
	if o.Amount != "" && !isNumber(o.Amount) {
		return nil, nil, fmt.Errorf("amount: %q is not a number", o.Amount)
	}
	if err := d.setAll(s.preset.amount, o.Amount); err != nil {
		return nil, nil, fmt.Errorf("amount: %w", err)
	}
	if err := d.setAll(s.preset.currency, o.Currency); err != nil {
		return nil, nil, fmt.Errorf("currency: %w", err)
	}
	for _, pair := range o.Set {
		if err := d.setPair(pair); err != nil {
			return nil, nil, fmt.Errorf("set: %w", err)
		}
	}
	body, err = d.bytes()
	return body, d.header, err
}

// TypeInHeader reports whether events say their type in a header, at least in
// part: there it can be given to a body of one's own.
func (s *Source) TypeInHeader() bool {
	return slices.ContainsFunc(s.typ, func(l locator) bool { return len(l.headers) > 0 })
}

// fit makes a draft one of this source: in its mode, at the time that is asked
// for, and with an id and a type in the places that only the configuration names.
func (d *draft) fit(s *Source, o Sample) error {
	if s.live.set() {
		if at, value := d.resolve(s.live); modeOf(value, s.preset.modes) != s.mode {
			if err := d.set(at, wordFor(s.mode, s.preset.modes, value)); err != nil {
				return err
			}
		}
	}
	if s.occurred.set() && !o.At.IsZero() {
		at, value := d.resolve(s.occurred)
		if text := timeLike(value, s.zone, o.At); text != "" {
			if err := d.set(at, like(value, text)); err != nil {
				return err
			}
		}
	}
	if len(s.preset.id) == 0 {
		for _, l := range s.id {
			at, _ := d.resolve(l)
			if err := d.set(at, o.ID); err != nil {
				return err
			}
		}
	}
	if o.Type == "" && len(s.typ) > 0 && len(d.there(s.typ)) == 0 {
		return d.setType(s.typ, usualType)
	}
	return nil
}

// setType writes a type into the places that make it up: those that the sample
// has, each of which takes what stands before a dot, and the last one the rest.
func (d *draft) setType(places []locator, typ string) error {
	there := d.there(places)
	if len(there) == 0 {
		if len(places) == 0 {
			return ErrNoPlace
		}
		there = places[:1]
	}
	parts := strings.SplitN(typ, ".", len(there))
	for i, l := range there {
		at, value := d.resolve(l)
		if i >= len(parts) {
			d.remove(at)
			continue
		}
		if err := d.set(at, like(value, parts[i])); err != nil {
			return err
		}
	}
	return nil
}

// setAll writes text to members that the sample has; none: there is no place.
func (d *draft) setAll(places []string, text string) error {
	switch {
	case text == "":
		return nil
	case len(places) == 0:
		return ErrNoPlace
	}
	for _, place := range places {
		at, value := d.resolve(locator{path: strings.Split(place, ".")})
		if err := d.set(at, like(value, text)); err != nil {
			return err
		}
	}
	return nil
}

// setPair writes what a person says as place=value or place:=JSON.
func (d *draft) setPair(pair string) error {
	place, text, ok := strings.Cut(pair, "=")
	place, isJSON := strings.CutSuffix(place, ":")
	at, sound := parseSpot(place)
	if !ok || !sound {
		return fmt.Errorf("%q is not path=value, as in data.object.customer=cus_1", pair)
	}
	onlyText := at.header != "" || d.form != nil || d.xml != nil
	switch value, err := decodeJSON(text); {
	case isJSON && onlyText:
		return fmt.Errorf("%q: headers, forms and XML hold text alone; write %s=value", pair, place)
	case isJSON && err != nil:
		return fmt.Errorf("%q: what follows := is not JSON; write %s=value for text", pair, place)
	case isJSON:
		return d.set(at, value)
	case onlyText:
		return d.set(at, text)
	}
	return d.set(at, kept(d.get(at), text))
}

// kept returns text as JSON where it is JSON, but as text where it is quoted or the
// sample has text.
func kept(sample any, text string) any {
	value := valueOf(text)
	_, quoted := value.(string)
	if _, isText := sample.(string); isText && !quoted {
		return text
	}
	return value
}

// like returns text as the sample writes such a value: a number where one stands.
func like(value any, text string) any {
	if _, ok := value.(json.Number); ok && isNumber(text) {
		return json.Number(text)
	}
	return text
}

func isNumber(text string) bool {
	return strings.Trim(text, "0123456789+-.eE") == "" && json.Valid([]byte(text))
}

// wordFor returns what a provider calls a mode, as a string where value, which
// stands there now, is one.
func wordFor(mode string, words []word, value any) any {
	_, text := value.(string)
	if words == nil && value != live && value != test {
		words = []word{{"true", live}, {"false", test}}
	}
	for _, w := range words {
		if w.mode == mode && w.text != "" {
			if text {
				return w.text
			}
			return valueOf(w.text)
		}
	}
	return mode
}

// timeLike returns at in the form of a sample's time: RFC 3339, a provider's local
// time, or unix time in seconds or milliseconds; RFC 3339 where there is none, and
// nothing where the form is another.
func timeLike(value any, zone *time.Location, at time.Time) string {
	text := ""
	switch v := value.(type) {
	case nil:
		return at.UTC().Format(time.RFC3339)
	case json.Number:
		text = v.String()
	case string:
		text = v
	}
	if _, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return at.UTC().Format(time.RFC3339)
	}
	for _, layout := range layouts {
		if _, err := time.Parse(layout, text); err == nil && zone != nil {
			return at.In(zone).Format(layout)
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		return ""
	case n >= milliseconds:
		return strconv.FormatInt(at.UnixMilli(), 10)
	}
	return strconv.FormatInt(at.Unix(), 10)
}
