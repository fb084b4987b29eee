// Package jsondoc reads JSON documents that carry money.
//
// It guarantees that a document has exactly one reading: a member name that is
// repeated anywhere is an error, numbers keep their exact value (never a
// float64), and nesting and number length are bounded. One validating pass over
// the bytes builds only the paths that are asked for; whatever is not asked for
// is checked all the same, so acceptance never depends on what is kept.
//
//	keep := jsondoc.NewPaths([]string{"data", "object", "amount"})
//	doc, err := jsondoc.Scan(body, keep)
//	if err != nil {
//		return err // ErrSyntax, ErrAmbiguous or ErrDepth
//	}
//	amount, ok := jsondoc.Lookup(doc, "data", "object", "amount") // int64 or Number
package jsondoc

import (
	"errors"
	"strconv"
)

// Bounds of a document.
const (
	// MaxDepth is how deep arrays and objects may nest; the recursion of the scan has the same depth.
	MaxDepth = 100
	// MaxNumber is the longest number literal in bytes: every float64 written
	// out in full fits, and arithmetic on what is accepted stays small.
	MaxNumber = 400
)

var (
	// ErrSyntax is a body that is not JSON as RFC 8259 has it, or that holds a
	// number literal longer than MaxNumber bytes.
	ErrSyntax = errors.New("malformed JSON")
	// ErrAmbiguous is an object in which a member name is repeated: readers
	// disagree about which of the two counts.
	ErrAmbiguous = errors.New("repeated member name")
	// ErrDepth is a document that nests deeper than MaxDepth.
	ErrDepth = errors.New("JSON nests too deeply")
	// ErrNoArray is a document without the array whose elements are asked for.
	ErrNoArray = errors.New("no such array")
	// ErrMany is an array of more elements than are asked for.
	ErrMany = errors.New("too many elements")
)

// Number is a JSON number that is not an int64: the text exactly as it was
// written, with a fraction, an exponent, or more digits than 64 bits hold.
// An integer literal that fits is an int64 (and -0 is 0).
type Number string

// Unstorable is a string that is no text: it holds U+0000, half a surrogate
// pair or invalid UTF-8, which Postgres refuses and readers replace in
// different ways. Its bytes are the decoded ones, a lone surrogate as three.
type Unstorable string

// Scan reads data, all of it, and returns the parts that keep names: nil, bool,
// string, int64, Number, Unstorable, []any and map[string]any. Objects on the
// way to a kept path are there with the kept members only. A nil keep checks
// the document and returns nil. A byte order mark at the start is skipped.
//
// Errors wrap ErrSyntax, ErrAmbiguous or ErrDepth and name the byte offset.
// Member names are compared after unescaping, with invalid UTF-8 and lone
// surrogates replaced by U+FFFD, as encoding/json reads them.
func Scan(data []byte, keep *Paths) (any, error) {
	s := scanners.Get().(*scanner)
	defer s.release()
	s.start(data)
	v, err := s.value(keep)
	if err != nil {
		return nil, err
	}
	if err := s.end(); err != nil {
		return nil, err
	}
	return v, nil
}

// Lookup walks doc along path: members of objects by name, elements of arrays
// by decimal index. It reports false where the path leaves the document; a null
// at its end is (nil, true).
func Lookup(doc any, path ...string) (any, bool) {
	for _, name := range path {
		switch v := doc.(type) {
		case map[string]any:
			next, ok := v[name]
			if !ok {
				return nil, false
			}
			doc = next
		case []any:
			i, err := strconv.ParseUint(name, 10, 31)
			if err != nil || i >= uint64(len(v)) || strconv.FormatUint(i, 10) != name {
				return nil, false
			}
			doc = v[i]
		default:
			return nil, false
		}
	}
	return doc, true
}
