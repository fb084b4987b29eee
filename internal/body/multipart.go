package body

import (
	"bytes"
	"fmt"
	"mime"
	"net/textproto"
	"strings"
)

// maxPartHeader bounds the header of one part in bytes; a field's is below 200.
const maxPartHeader = 4 << 10

// ReadMultipart reads a multipart/form-data body whose boundary contentType
// names. Its parts are fields: a file, a nested multipart, a transfer encoding
// and a charset other than UTF-8 are errors, as webhooks have none of them.
//
// The body must begin with its first boundary and end with its last one, and the
// boundary must occur nowhere else, not even as part of a longer line: then no
// two readers can find different parts. Errors wrap ErrSyntax, ErrAmbiguous or
// ErrLimit.
func ReadMultipart(data []byte, contentType string) (Form, error) {
	boundary, err := boundaryOf(contentType)
	if err != nil {
		return nil, err
	}
	delimiter := append([]byte("--"), boundary...)
	pieces := bytes.SplitN(data, delimiter, MaxFields+3)
	switch last := len(pieces) - 1; {
	case last < 2 || len(pieces[0]) > 0:
		return nil, fmt.Errorf("%w: the body does not begin with its boundary, or never closes it", ErrSyntax)
	case len(pieces) == MaxFields+3:
		return nil, fmt.Errorf("%w: form of more than %d parts", ErrLimit, MaxFields)
	case string(pieces[last]) != "--" && string(pieces[last]) != "--\r\n":
		return nil, fmt.Errorf("%w: the body does not end with its last boundary", ErrSyntax)
	}
	form := make(Form, 0, len(pieces)-2)
	for _, piece := range pieces[1 : len(pieces)-1] {
		field, err := readPart(piece)
		if err != nil {
			return nil, err
		}
		form = append(form, field)
	}
	return form, nil
}

// boundaryOf returns the boundary that a multipart/form-data content type names.
func boundaryOf(contentType string) (string, error) {
	kind, params, err := mime.ParseMediaType(contentType)
	boundary := params["boundary"]
	switch {
	case err != nil || kind != "multipart/form-data":
		return "", fmt.Errorf("%w: content type %q is not multipart/form-data", ErrSyntax, clip(contentType))
	case strings.Contains(contentType, "*"):
		// Continued and encoded parameters (RFC 2231): most readers know neither.
		return "", fmt.Errorf("%w: content type %q spells its boundary in two ways", ErrAmbiguous, clip(contentType))
	case boundary == "" || len(boundary) > 70 || strings.HasSuffix(boundary, " "):
		return "", fmt.Errorf("%w: bad boundary %q", ErrSyntax, clip(boundary))
	}
	for i := range len(boundary) { // RFC 2046, section 5.1.1
		c := boundary[i]
		letter := 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9'
		if !letter && strings.IndexByte("'()+_,-./:=? ", c) < 0 {
			return "", fmt.Errorf("%w: bad boundary %q", ErrSyntax, clip(boundary))
		}
	}
	return boundary, nil
}

// readPart reads what stands between two boundaries.
func readPart(piece []byte) (Field, error) {
	piece, begins := bytes.CutPrefix(piece, []byte("\r\n"))
	piece, ends := bytes.CutSuffix(piece, []byte("\r\n"))
	header, value, found := bytes.Cut(piece, []byte("\r\n\r\n"))
	if !begins || !ends || !found {
		return Field{}, fmt.Errorf("%w: a part of the form has no header, or no line of its own", ErrSyntax)
	}
	if len(header) > maxPartHeader {
		return Field{}, fmt.Errorf("%w: part header of %d bytes", ErrLimit, len(header))
	}
	name, err := partName(header)
	if err != nil {
		return Field{}, err
	}
	if len(name) > MaxFieldName {
		return Field{}, fmt.Errorf("%w: field name of %d bytes", ErrLimit, len(name))
	}
	return Field{RawName: []byte(name), RawValue: value, Name: []byte(name), Value: value}, nil
}

// partName returns the name of the field that a part's header describes.
func partName(header []byte) (string, error) {
	seen := make(map[string]string)
	for line := range bytes.SplitSeq(header, []byte("\r\n")) {
		key, value, found := strings.Cut(string(line), ":")
		key = textproto.CanonicalMIMEHeaderKey(key)
		if !found || strings.ContainsAny(key, " \t") || strings.ContainsAny(value, "\r\n") {
			return "", fmt.Errorf("%w: bad header line %q in a part", ErrSyntax, clip(line))
		}
		if _, twice := seen[key]; twice {
			return "", fmt.Errorf("%w: header %s of a part is repeated", ErrAmbiguous, clip(key))
		}
		seen[key] = strings.TrimSpace(value)
	}
	if encoding := seen["Content-Transfer-Encoding"]; encoding != "" {
		return "", fmt.Errorf("%w: transfer encoding %q of a part", ErrSyntax, clip(encoding))
	}
	if kind := seen["Content-Type"]; kind != "" {
		media, params, err := mime.ParseMediaType(kind)
		charset, known := charsets[strings.ToLower(params["charset"])]
		if err != nil || strings.HasPrefix(media, "multipart/") || charset != nil || !known {
			return "", fmt.Errorf("%w: content type %q of a part", ErrSyntax, clip(kind))
		}
	}
	disposition := seen["Content-Disposition"]
	if strings.ContainsAny(disposition, `\*`) {
		return "", fmt.Errorf("%w: disposition %q of a part is read in different ways", ErrAmbiguous, clip(disposition))
	}
	kind, params, err := mime.ParseMediaType(disposition)
	name, named := params["name"]
	_, file := params["filename"]
	switch {
	case err != nil || kind != "form-data" || !named:
		return "", fmt.Errorf("%w: disposition %q of a part", ErrSyntax, clip(disposition))
	case file:
		return "", fmt.Errorf("%w: part %q is a file", ErrSyntax, clip(name))
	}
	return name, nil
}
