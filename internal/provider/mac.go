package provider

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/onceledger/onceledger/internal/config"
)

// mac is a keyed hash in a header: what most providers do. Its fields are data
// of a preset; zero values mean HMAC with SHA-256 in hex over the body.
//
//	Stripe-Signature: t=1533204620,v1=2220f8…,v1=9a31c0…
//	                  ‾‾timePart  ‾‾‾prefix  ‾separator
type mac struct {
	header string
	prefix string
	// also is another prefix under which the same signature may stand.
	also string
	// named: the key's name and a colon stand between prefix and signature.
	named bool
	// separator stands between the parts of the header, those without prefix
	// and timePart being ignored; empty: the whole value is one signature.
	separator, timePart string
	// timeFirst: the first part is the time, all others are signatures.
	timeFirst bool
	// timeHeader and idHeader carry {timestamp} and {id}.
	timeHeader, idHeader string

	hash     func() hash.Hash
	encoding encoding
	// plain: a hash without a key; the content holds {secret}.
	plain bool
	// key makes the key of a secret; nil takes its bytes. Its errors do not hold it.
	key func(secret string) ([]byte, error)
	// content is the signed text; the clock counts where it holds a time.
	content template
	clock   clock
	// target is what {url} stands for.
	target target

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
		m.clock.tolerance = src.Tolerance
		if !m.content.has(stampPart) {
			f.add(src.Pos, "tolerance", "no time is signed here, so there is nothing to tolerate; leave it out")
		}
	}
	if m.content.has(urlPart) {
		m.target.configure(src, f)
	}
	for i, secret := range secrets(src, f) {
		key := []byte(secret)
		if m.key != nil {
			var err error
			if key, err = m.key(secret); err != nil {
				f.add(src.Pos, fmt.Sprintf("secrets[%d]", i), "%v", err)
				continue
			}
		}
		m.keys = append(m.keys, m.newKey(key))
	}
	return &m
}

func (m *mac) limit() time.Duration {
	if !m.content.has(stampPart) {
		return 0
	}
	return m.clock.limit()
}

func (m *mac) newKey(key []byte) *sync.Pool {
	if m.plain {
		return &sync.Pool{New: func() any { return &hasher{mac: m.hash(), secret: key} }}
	}
	return newKey(m.hash, key)
}

func (m *mac) verify(_ context.Context, req Request, now time.Time) error {
	value, err := req.single(m.header)
	if err != nil {
		return err
	}
	if m.separator != "" && strings.Count(value, m.separator) >= maxParts {
		return refuse("header %s has more than %d parts", m.header, maxParts)
	}
	text := signed{method: req.Method, body: req.Body}
	if m.content.has(stampPart) {
		if text.stamp, err = m.stamp(&req, value); err != nil {
			return err
		}
		if err := m.clock.check(text.stamp, now, req.trace); err != nil {
			return err
		}
	}
	if m.content.has(idPart) {
		if text.id, err = req.single(m.idHeader); err != nil {
			return err
		}
	}
	if m.content.has(urlPart) {
		text.url = m.target.of(req.Query)
	}

	req.trace.text(m.content, &text)
	req.trace.parts(m, value)
	for i, key := range m.keys {
		hasher := key.Get().(*hasher)
		sum := hasher.sum(m.content, &text)
		found := m.contains(value, sum)
		req.trace.mac(i, m.shown(), m.encoding, sum, found)
		key.Put(hasher)
		if found {
			return nil
		}
	}
	return refuse("no signature in header %s matches a live secret", m.header)
}

// stamp returns the signed time as the request has it.
func (m *mac) stamp(req *Request, value string) (string, error) {
	if m.timeHeader != "" {
		return req.single(m.timeHeader)
	}
	if m.timeFirst {
		stamp, _, _ := strings.Cut(value, m.separator)
		return stamp, nil
	}
	stamp, found := "", 0
	for part, more := "", true; more; {
		part, value, more = m.cut(value)
		if rest, ok := strings.CutPrefix(part, m.timePart); ok {
			stamp = rest
			found++
		}
	}
	if found != 1 {
		req.trace.times(m.header, m.timePart, found)
		return "", refuse("header %s has %d times, not one", m.header, found)
	}
	return stamp, nil
}

// contains reports whether one of the signatures in value is sum.
func (m *mac) contains(value string, sum []byte) bool {
	for part, more := "", true; more; {
		part, value, more = m.cut(value)
		text, ok := strings.CutPrefix(part, m.prefix)
		if !ok && m.also != "" {
			text, ok = strings.CutPrefix(part, m.also)
		}
		if m.named {
			_, text, _ = strings.Cut(text, ":")
		}
		if ok && m.encoding.equal(text, sum) {
			return true
		}
	}
	return false
}

// shown is what stands before a signature that is made here.
func (m *mac) shown() string {
	if m.named {
		return m.prefix + "KEY:"
	}
	return m.prefix
}

// cut returns the first part of a header's value and the rest. An iterator
// would allocate, for each request.
func (m *mac) cut(value string) (part, rest string, more bool) {
	if m.separator == "" {
		return value, "", false
	}
	part, rest, more = strings.Cut(value, m.separator)
	if m.named {
		part = strings.TrimSpace(part)
	}
	return part, rest, more
}

func (m *mac) sign(req *Request, id string, now time.Time) error {
	text := signed{
		id: id, stamp: strconv.FormatInt(now.Unix(), 10),
		method: req.Method, url: m.target.of(req.Query), body: req.Body,
	}
	if m.clock.millis {
		text.stamp = strconv.FormatInt(now.UnixMilli(), 10)
	}
	hasher := m.keys[0].Get().(*hasher)
	defer m.keys[0].Put(hasher)

	value := m.shown() + m.encoding.encode(hasher.sum(m.content, &text))
	switch {
	case m.timeHeader != "":
		req.Header.Set(m.timeHeader, text.stamp)
	case m.timePart != "" || m.timeFirst:
		value = m.timePart + text.stamp + m.separator + value
	}
	if m.idHeader != "" {
		req.Header.Set(m.idHeader, id)
	}
	req.Header.Set(m.header, value)
	return nil
}

// hasher computes hashes under one secret. It is pooled, since setting up the
// key costs a third of a verification.
type hasher struct {
	mac    hash.Hash
	secret []byte // for {secret}
	buf    []byte
}

func newKey(hash func() hash.Hash, secret []byte) *sync.Pool {
	return &sync.Pool{New: func() any { return &hasher{mac: hmac.New(hash, secret)} }}
}

// sum returns the hash of the filled template; it is the hasher's own until
// its next use.
func (h *hasher) sum(t template, text *signed) []byte {
	h.mac.Reset()
	for _, part := range t {
		switch part {
		case bodyPart:
			_, _ = h.mac.Write(text.body)
		case secretPart:
			_, _ = h.mac.Write(h.secret)
		default:
			h.buf = text.appendPart(h.buf[:0], part)
			_, _ = h.mac.Write(h.buf)
		}
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

// hexKey is the key of a secret that is written in hex.
func hexKey(secret string) ([]byte, error) {
	key, err := hex.DecodeString(secret)
	if err != nil || len(key) == 0 {
		return nil, fmt.Errorf("is no key in hex, as the provider shows it")
	}
	return slices.Clip(key), nil
}
