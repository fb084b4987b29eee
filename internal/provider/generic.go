package provider

import (
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"hash"

	"github.com/onceledger/onceledger/internal/config"
)

// generic is provider "hmac": a keyed hash described in the source's hmac:
// block, with locators that say where the id and the rest are. Headers that
// locators name are kept for the rules. Mind that a header is usually not
// covered by the signature.
var generic = preset{
	name:     "hmac",
	signed:   "a keyed hash, as the hmac: block says",
	secret:   "the key that you and the sender share",
	scheme:   genericScheme,
	uses:     usesHMAC,
	sample:   `{"amount":19.99,"currency":"EUR","asset":"EUR","user":"user_test","customer":"cus_test","payment_id":"pay_{id}","order_id":"ord_{id}"}`,
	amount:   []string{"amount"},
	currency: []string{"currency", "asset"},
}

var algorithms = map[string]func() hash.Hash{
	"":       sha256.New,
	"sha1":   sha1.New,
	"sha256": sha256.New,
	"sha512": sha512.New,
}

var encodings = map[string]encoding{
	"":       hexText,
	"hex":    hexText,
	"base64": base64Text,
}

// genericScheme builds the scheme of an hmac: block.
func genericScheme(src config.Source, f *faults) scheme {
	if src.HMAC == nil {
		f.add(src.Pos, "hmac", "provider hmac needs this block: header, prefix, encoding, algorithm, content")
		return nil
	}
	c := *src.HMAC
	m := mac{
		header:     c.Header,
		prefix:     c.Prefix,
		timeHeader: c.TimestampHeader,
		idHeader:   c.IDHeader,
		content:    parseContent(src, f),
		clock:      clock{tolerance: tolerance},
	}

	var ok bool
	if m.hash, ok = algorithms[c.Algorithm]; !ok {
		f.add(src.Pos, "hmac.algorithm", "%q is unknown; there are sha1, sha256 and sha512", c.Algorithm)
	}
	if m.encoding, ok = encodings[c.Encoding]; !ok {
		f.add(src.Pos, "hmac.encoding", "%q is unknown; there are hex and base64", c.Encoding)
	}
	checkHeader(f, "hmac.header", c.Header, "the header that carries the signature")
	return m.scheme(src, f)
}

// parseContent returns the signed text. It reports one that cannot be built, or
// that leaves out what the block says is there.
func parseContent(src config.Source, f *faults) template {
	c := *src.HMAC
	if c.Content.Value == "" {
		c.Content.Value = bodyPart
	}
	content, err := parseTemplate(c.Content.Value, bodyPart, stampPart, idPart)
	if err != nil {
		f.add(c.Content.Pos, "hmac.content", "%v", err)
		return nil
	}
	if !content.has(bodyPart) {
		f.add(c.Content.Pos, "hmac.content", "does not hold {body}, so anybody could change the amounts")
	}
	for _, needs := range []struct{ part, key, header string }{
		{stampPart, "hmac.timestamp_header", c.TimestampHeader},
		{idPart, "hmac.id_header", c.IDHeader},
	} {
		switch {
		case content.has(needs.part):
			checkHeader(f, needs.key, needs.header, "the header that carries "+needs.part)
		case needs.header != "":
			f.add(c.Content.Pos, "hmac.content", "does not hold %s, so the header of %s is not signed",
				needs.part, needs.key)
		}
	}
	return content
}

func checkHeader(f *faults, key, name, what string) {
	if !headerName(name) {
		f.add(f.src.Pos, key, "%q is no header name; name %s", name, what)
	}
}
