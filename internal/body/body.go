// Package body reads the bytes that providers send: forms, multipart forms, XML,
// signed tokens, sealed resources and base64 envelopes, as well as JSON, and
// bodies that are compressed or hold several events.
//
// It guarantees that what is accepted has exactly one reading: a name that is
// repeated, an escape that readers take differently and a text that is not what
// its charset says are errors or marked values, never a guess. Nothing panics,
// nothing recurses further than a named bound, and memory is bounded by the size
// of the body (XML, the greediest, takes up to 40 times that), or by the caller's
// limit where it is compressed. Bytes are what is signed and hashed: every reader
// leaves its input untouched, and forms give back the bytes as they were sent
// beside what they mean.
//
//	kind := &body.Kind{Format: body.FormatForm, CharsetField: "charset"}
//	doc, err := body.View(kind, contentType, data, keep)
//	if err != nil {
//		return body.Reason(err) // bad_json, ambiguous_json, unstorable_text, decrypt_failed
//	}
//	amount, ok := jsondoc.Lookup(doc, "total_amount") // as from jsondoc.Scan
package body

import (
	"errors"

	"github.com/onceledger/onceledger/internal/jsondoc"
	"github.com/onceledger/onceledger/pkg/dlq"
)

var (
	// ErrSyntax is a body that is not of the format it is read as.
	ErrSyntax = errors.New("malformed body")
	// ErrAmbiguous is a name that is repeated where only one counts, or anything
	// else that readers take in different ways.
	ErrAmbiguous = errors.New("ambiguous body")
	// ErrLimit is a body past one of the bounds of this package or of the caller.
	ErrLimit = errors.New("body exceeds a limit")
	// ErrText is text that is not in the charset it claims.
	ErrText = errors.New("text is not in its charset")
	// ErrDecrypt is a resource that none of the keys opens: a wrong key, or data
	// that was changed on the way.
	ErrDecrypt = errors.New("resource does not open")
	// ErrUnsupported is a Content-Encoding that is not read here; the answer for
	// it is 415.
	ErrUnsupported = errors.New("unsupported content encoding")
	// ErrToken is a signed token that must not be trusted.
	ErrToken = errors.New("token is not valid")
)

// Reason returns the reason for which an event whose body gave err is parked,
// empty for nil. It knows the errors of this package and of jsondoc; any other
// is bad_json, the reason for bodies that cannot be read at all.
func Reason(err error) dlq.Reason {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, jsondoc.ErrAmbiguous), errors.Is(err, ErrAmbiguous):
		return dlq.AmbiguousJSON
	case errors.Is(err, ErrText):
		return dlq.UnstorableText
	case errors.Is(err, ErrDecrypt):
		return dlq.DecryptFailed
	}
	return dlq.BadJSON
}

// clip shortens text for an error message.
func clip[T string | []byte](text T) T {
	const most = 64
	if len(text) > most {
		return text[:most]
	}
	return text
}
