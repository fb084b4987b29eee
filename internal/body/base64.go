package body

import (
	"bytes"
	"encoding/base64"
	"fmt"
)

// Base64 is a spelling of base64; each takes its own alphabet and padding only.
type Base64 struct {
	name     string
	encoding *base64.Encoding
	// lines lets line breaks stand anywhere.
	lines bool
}

// The spellings that providers use.
var (
	// Base64Std has + and /, and padding: Pub/Sub's message.data, WeChat Pay's
	// resources, the certificates of x5c.
	Base64Std = Base64{name: "base64", encoding: base64.StdEncoding.Strict()}
	// Base64Lines is Base64Std with line breaks: Braintree's bt_payload.
	Base64Lines = Base64{name: "base64", encoding: base64.StdEncoding.Strict(), lines: true}
	// Base64Raw is Base64Std without padding.
	Base64Raw = Base64{name: "base64 without padding", encoding: base64.RawStdEncoding.Strict()}
	// Base64URL has - and _, and padding.
	Base64URL = Base64{name: "base64url", encoding: base64.URLEncoding.Strict()}
	// Base64RawURL has - and _, without padding: the parts of JWS and JWT.
	Base64RawURL = Base64{name: "base64url without padding", encoding: base64.RawURLEncoding.Strict()}
)

// Decode returns the bytes that text spells. Every sequence of bytes has one
// spelling: bits that are left over must be zero, and there is nothing else in
// text, line breaks of Base64Lines aside. Errors wrap ErrSyntax.
func (b Base64) Decode(text []byte) ([]byte, error) {
	if !b.lines && bytes.ContainsAny(text, "\r\n") { // which encoding/base64 passes over
		return nil, fmt.Errorf("%w: line break in %s", ErrSyntax, b.name)
	}
	plain := make([]byte, b.encoding.DecodedLen(len(text)))
	n, err := b.encoding.Decode(plain, text)
	if err != nil {
		return nil, fmt.Errorf("%w: bad %s: %w", ErrSyntax, b.name, err)
	}
	return plain[:n], nil
}

// Open is Decode for Inner.
func (b Base64) Open(text string, _ map[string]any) ([]byte, error) {
	return b.Decode([]byte(text))
}
