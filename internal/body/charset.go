package body

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/simplifiedchinese"

	"github.com/onceledger/onceledger/internal/jsondoc"
)

// charsets are those that payment providers declare, by lower-case name: Alipay
// GBK and its kin, PayPal IPN windows-1252. In all of them a byte below 0x80
// that begins a character is ASCII. The nil encoding is UTF-8.
var charsets = map[string]encoding.Encoding{
	"":             nil,
	"utf-8":        nil,
	"utf8":         nil,
	"us-ascii":     nil,
	"gbk":          simplifiedchinese.GBK,
	"gb2312":       simplifiedchinese.GBK, // which contains it
	"gb18030":      simplifiedchinese.GB18030,
	"iso-8859-1":   charmap.ISO8859_1,
	"windows-1252": charmap.Windows1252,
}

// texts decodes the texts of one body from the charset it declares.
type texts struct {
	charset encoding.Encoding
	// why says for what reason nothing but ASCII can be decoded; empty if it can.
	why string
}

// newTexts judges what the body declares by all of its bytes that matter.
//
// A declaration other than UTF-8 is believed only if the bytes are not valid
// UTF-8: bytes that read well both ways have two readings, and a sender that
// says GBK and sends UTF-8 is far likelier than GBK text all of whose pairs
// happen to be UTF-8. A body that says UTF-8, or nothing, is read as UTF-8.
func newTexts(declared string, values ...[]byte) texts {
	charset, known := charsets[strings.ToLower(strings.TrimSpace(declared))]
	switch {
	case !known:
		return texts{why: fmt.Sprintf("charset %q is not known", clip(declared))}
	case charset == nil:
		return texts{}
	}
	plain := true
	for _, value := range values {
		if ascii(value) {
			continue
		}
		plain = false
		if !utf8.Valid(value) {
			return texts{charset: charset}
		}
	}
	if plain {
		return texts{charset: charset}
	}
	return texts{why: fmt.Sprintf("charset %q is declared, but the bytes are UTF-8, too", clip(declared))}
}

// text returns raw as a string, or as jsondoc.Unstorable with the bytes as they
// were sent if they are no text of the charset, or hold U+0000.
func (t texts) text(raw []byte) any {
	text, err := t.decode(raw)
	if err != nil {
		return jsondoc.Unstorable(raw)
	}
	return text
}

// name returns raw as a name: what cannot be decoded becomes U+FFFD, as in the
// member names of jsondoc.
func (t texts) name(raw []byte) string {
	if text, err := t.decode(raw); err == nil {
		return text
	}
	return strings.ToValidUTF8(string(raw), "\uFFFD")
}

// decode returns raw in UTF-8; its errors wrap ErrText.
func (t texts) decode(raw []byte) (string, error) {
	if bytes.IndexByte(raw, 0) >= 0 {
		return "", fmt.Errorf("%w: it holds U+0000", ErrText)
	}
	switch {
	case ascii(raw):
		return string(raw), nil
	case t.why != "":
		return "", fmt.Errorf("%w: %s", ErrText, t.why)
	case t.charset == nil:
		if !utf8.Valid(raw) {
			return "", fmt.Errorf("%w: it is not UTF-8", ErrText)
		}
		return string(raw), nil
	}
	text, err := t.charset.NewDecoder().Bytes(raw)
	// The decoders write U+FFFD for what they cannot read. Where it was sent as
	// a character, GB18030 alone can, it marks a text that was broken before.
	if err != nil || bytes.ContainsRune(text, utf8.RuneError) {
		return "", fmt.Errorf("%w: bytes that are no character", ErrText)
	}
	return string(text), nil
}

func ascii(b []byte) bool {
	for _, c := range b {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// withoutBOM returns data without a UTF-8 byte order mark at its start.
func withoutBOM(data []byte) []byte {
	return bytes.TrimPrefix(data, []byte("\xEF\xBB\xBF"))
}
