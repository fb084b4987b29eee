package envelope

import "strings"

// EncodeText percent-encodes text for a header as the CloudEvents binding does,
// so that any text is a safe header value.
func EncodeText(text string) string { return encodeText(text) }

// DecodeText is the inverse of EncodeText.
func DecodeText(value string) (string, bool) { return decodeText(value) }

// Token returns text as one safe token of a subject.
func Token(text string) string {
	var b strings.Builder
	writeToken(&b, text)
	return b.String()
}
