package provider

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/onceledger/onceledger/internal/config"
)

// mac is a keyed hash in a header: what most providers do. Its fields are data
// of a preset; zero values mean SHA-256 in hex over the body.
//
//	Stripe-Signature: t=1533204620,v1=2220f8…,v1=9a31c0…
//	                  ‾‾timePart  ‾‾‾prefix  ‾separator
type mac struct {
	header string
	prefix string
	// separator stands between the parts of the header, those without prefix
	// and timePart being ignored; empty: the whole value is one signature.
	separator, timePart string
	// timeHeader and idHeader carry {timestamp} and {id}.
	timeHeader, idHeader string

	hash     func() hash.Hash
	encoding encoding
	// content is the signed text; tolerance counts where it holds a time.
	content   template
	tolerance time.Duration

	keys []*sync.Pool // of *hasher, one pool a secret
}

// scheme completes m with the secrets and the tolerance of a source.
func (m mac) scheme(src config.Source, f *faults) scheme {
	if m.hash == nil {
		m.hash = sha256.New
	}
	if m.content == nil {
		m.content = template{bodyPart}
	}
	m.header = http.CanonicalHeaderKey(m.header)
	m.timeHeader = http.CanonicalHeaderKey(m.timeHeader)
	m.idHeader = http.CanonicalHeaderKey(m.idHeader)

	if src.Tolerance != 0 {
		m.tolerance = src.Tolerance
		if !m.content.has(stampPart) {
			f.add(src.Pos, "tolerance", "no time is signed here, so there is nothing to tolerate; leave it out")
		}
	}
	for _, secret := range secrets(src, f) {
		m.keys = append(m.keys, newKey(m.hash, []byte(secret)))
	}
	return &m
}

func (m *mac) verify(h http.Header, body []byte, now time.Time) error {
	value, err := single(h, m.header)
	if err != nil {
		return err
	}
	if m.separator != "" && strings.Count(value, m.separator) >= maxParts {
		return refuse("header %s has more than %d parts", m.header, maxParts)
	}
	text := signed{body: body}
	if m.content.has(stampPart) {
		if text.stamp, err = m.stamp(h, value); err != nil {
			return err
		}
		if err := fresh(text.stamp, now, m.tolerance); err != nil {
			return err
		}
	}
	if m.content.has(idPart) {
		if text.id, err = single(h, m.idHeader); err != nil {
			return err
		}
	}

	for _, key := range m.keys {
		hasher := key.Get().(*hasher)
		sum := hasher.sum(m.content, text)
		found := m.contains(value, sum)
		key.Put(hasher)
		if found {
			return nil
		}
	}
	return refuse("no signature in header %s matches a live secret", m.header)
}

// stamp returns the signed time as the request has it.
func (m *mac) stamp(h http.Header, value string) (string, error) {
	if m.timeHeader != "" {
		return single(h, m.timeHeader)
	}
	stamp, found := "", 0
	for part := range m.parts(value) {
		if rest, ok := strings.CutPrefix(part, m.timePart); ok {
			stamp = rest
			found++
		}
	}
	if found != 1 {
		return "", refuse("header %s has %d times, not one", m.header, found)
	}
	return stamp, nil
}

// contains reports whether one of the signatures in value is sum.
func (m *mac) contains(value string, sum []byte) bool {
	for part := range m.parts(value) {
		if text, ok := strings.CutPrefix(part, m.prefix); ok && m.encoding.equal(text, sum) {
			return true
		}
	}
	return false
}

func (m *mac) parts(value string) iter.Seq[string] {
	if m.separator == "" {
		return func(yield func(string) bool) { yield(value) }
	}
	return strings.SplitSeq(value, m.separator)
}

func (m *mac) sign(body []byte, id string, now time.Time) (http.Header, error) {
	text := signed{id: id, stamp: strconv.FormatInt(now.Unix(), 10), body: body}
	hasher := m.keys[0].Get().(*hasher)
	defer m.keys[0].Put(hasher)

	value := m.prefix + m.encoding.encode(hasher.sum(m.content, text))
	h := http.Header{}
	switch {
	case m.timeHeader != "":
		h.Set(m.timeHeader, text.stamp)
	case m.timePart != "":
		value = m.timePart + text.stamp + m.separator + value
	}
	if m.idHeader != "" {
		h.Set(m.idHeader, id)
	}
	h.Set(m.header, value)
	return h, nil
}

// hasher computes keyed hashes under one secret. It is pooled, since setting
// up the key costs a third of a verification.
type hasher struct {
	mac hash.Hash
	buf []byte
}

func newKey(hash func() hash.Hash, secret []byte) *sync.Pool {
	return &sync.Pool{New: func() any { return &hasher{mac: hmac.New(hash, secret)} }}
}

// sum returns the keyed hash of the filled template; it is the hasher's own
// until its next use.
func (h *hasher) sum(t template, text signed) []byte {
	h.mac.Reset()
	for _, part := range t {
		if part == bodyPart {
			_, _ = h.mac.Write(text.body)
			continue
		}
		h.buf = text.appendPart(h.buf[:0], part)
		_, _ = h.mac.Write(h.buf)
	}
	h.buf = h.mac.Sum(h.buf[:0])
	return h.buf
}

// encoding is how a signature is written.
type encoding int

const (
	hexText encoding = iota
	base64Text
)

func (e encoding) encode(sum []byte) string {
	if e == base64Text {
		return base64.StdEncoding.EncodeToString(sum)
	}
	return hex.EncodeToString(sum)
}

// equal reports in constant time whether text is sum in this encoding; hex
// may be in either case. Text in another shape is simply not equal.
func (e encoding) equal(text string, sum []byte) bool {
	var raw, decoded [128]byte // SHA-512 in hex
	if len(text) > len(raw) {
		return false
	}
	n := copy(raw[:], text)
	var err error
	if e == base64Text {
		n, err = base64.StdEncoding.Strict().Decode(decoded[:], raw[:n])
	} else {
		n, err = hex.Decode(decoded[:], raw[:n])
	}
	return err == nil && hmac.Equal(decoded[:n], sum)
}
