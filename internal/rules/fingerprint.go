package rules

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/onceledger/onceledger/internal/jsondoc"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/envelope"
)

// semantics is part of Version: raise it when this code decides otherwise than
// before on equal rules, or takes the fingerprint from other bytes.
const semantics = "1"

// sum is the fingerprint of an event that could be read: its type and account,
// which rules matched, and what stands where its meaning is.
func (s *Set) sum(f *facts, outcomes []byte) [32]byte {
	buf := make([]byte, 0, 1024)
	buf = append(buf, "event:"...)
	buf = appendNetstring(buf, f.event.Type)
	buf = appendNetstring(buf, f.event.Account)
	buf = appendNetstring(buf, string(outcomes))
	if s.fingerprint.allHeaders {
		for _, name := range slices.Sorted(maps.Keys(f.event.Header)) {
			buf = appendNetstring(appendNetstring(buf, name), f.event.Header[name])
		}
	}
	for _, name := range s.fingerprint.headers {
		if text, ok := f.event.Header[name]; ok {
			buf = jsondoc.AppendCanonical(buf, text)
		} else {
			buf = jsondoc.AppendMissing(buf)
		}
	}
	for _, path := range s.fingerprint.body {
		if v, ok := jsondoc.Lookup(f.body, path...); ok {
			buf = jsondoc.AppendCanonical(buf, v)
		} else {
			buf = jsondoc.AppendMissing(buf)
		}
	}
	return sha256.Sum256(buf)
}

// unreadable is the fingerprint of an event that could not be read: its bytes.
func unreadable(reason dlq.Reason, ev *envelope.Event) [32]byte {
	buf := append(make([]byte, 0, 64+len(ev.Data)), "unreadable:"...)
	return sha256.Sum256(append(appendNetstring(buf, string(reason)), ev.Data...))
}

// modeFingerprint is that of any event of another mode.
func modeFingerprint(mode string) [32]byte {
	return sha256.Sum256(appendNetstring([]byte("mode:"), mode))
}

// hash is the version of the set. The place of the rules in the file and what
// does not decide, secrets among it, are no part of it.
func (s *Set) hash() int64 {
	h := []byte("rules:")
	for _, text := range []string{
		semantics, s.source.Name.Value, s.scope(), s.mode(), cmp.Or(s.source.Unmatched, "ignore"),
		s.preset.Name, strconv.FormatBool(s.preset.HasMode), strconv.FormatBool(s.preset.LowerCurrency),
	} {
		h = appendNetstring(h, text)
	}
	for _, code := range slices.Sorted(maps.Keys(s.money.decimals)) {
		h = appendNetstring(h, fmt.Sprintf("%s as %d", code, s.money.decimals[code]))
	}
	for _, asset := range s.money.assets.Declared() {
		h = appendNetstring(h, fmt.Sprintf("%s/%d", asset.Code, asset.Exponent))
	}
	h = appendList(h, s.fingerprint.headers)
	h = appendNetstring(h, strconv.FormatBool(s.fingerprint.allHeaders))
	for _, path := range s.fingerprint.body {
		h = appendList(h, path)
	}
	for _, r := range s.source.Rules {
		h = appendList(h, []string{r.When.Value})
		if r.Expect.Value != "" { // as below
			h = appendList(h, []string{"expect", r.Expect.Value})
		}
		for _, t := range r.Transfers {
			texts := []string{t.Debit.Value, t.Credit.Value, t.Amount.Value, t.Asset.Value, t.Operation.Value}
			if t.Parent.Value != "" { // rules without parents keep their version
				texts = append(texts, t.Parent.Value)
			}
			if t.Refunds.Value != "" {
				texts = append(texts, "refunds", t.Refunds.Value)
			}
			if kind := kindOf(t); kind != "" {
				texts = append(texts, string(kind), t.Expires.String(), t.Captures.Value, t.Voids.Value, t.Final.Value, strconv.FormatBool(t.Fact))
			}
			h = appendList(h, texts)
		}
	}
	sum := sha256.Sum256(h)
	return int64(binary.BigEndian.Uint64(sum[:]) >> 1)
}

// appendNetstring appends text as length:text, so that texts in a row are told
// apart whatever they hold.
func appendNetstring(dst []byte, text string) []byte {
	dst = strconv.AppendInt(dst, int64(len(text)), 10)
	return append(append(append(dst, ':'), text...), ',')
}

func appendList(dst []byte, texts []string) []byte {
	dst = append(strconv.AppendInt(append(dst, 'l'), int64(len(texts)), 10), ':')
	for _, text := range texts {
		dst = appendNetstring(dst, text)
	}
	return dst
}
