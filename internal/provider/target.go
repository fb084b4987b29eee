package provider

import (
	"net/url"
	"strings"

	"github.com/onceledger/onceledger/internal/config"
)

// target is the URL of a source as its provider calls it. It comes from the
// configuration alone: Host and X-Forwarded-* are the word of whoever sends.
type target struct {
	// exact: the provider signs the URL that was registered, whatever the query.
	exact bool
	// unescape: the provider decodes these escapes before it signs.
	unescape *strings.Replacer

	base, full string // without and with the configured query
}

// configure takes the source's url:, or reports that it is missing.
func (t *target) configure(src config.Source, f *faults) {
	text := src.URL.Value
	if text == "" {
		f.add(src.Pos, "url", "is needed: this provider signs the address it calls, so write it as registered there")
		return
	}
	if u, err := url.Parse(text); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.Fragment != "" {
		f.add(src.URL.Pos, "url", "%q is no address such as https://example.com/webhooks/%s", text, src.Name.Value)
		return
	}
	t.full = text
	t.base, _, _ = strings.Cut(text, "?")
}

// of returns the URL of a request with this query.
func (t *target) of(query string) string {
	full := t.full
	if !t.exact && query != "" {
		full = t.base + "?" + query
	}
	if t.unescape != nil && strings.IndexByte(full, '%') >= 0 {
		return t.unescape.Replace(full)
	}
	return full
}
