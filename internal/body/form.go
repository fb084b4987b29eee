package body

import (
	"bytes"
	"fmt"
)

const (
	// MaxFields is how many fields a form may have: ten times what the richest
	// notices carry, and where PHP and Django stop, too.
	MaxFields = 1000
	// MaxFieldName is the longest name of a field in bytes, escapes resolved.
	MaxFieldName = 1024
)

// Field is one field of a form, in memory that may be shared with the body.
type Field struct {
	// RawName and RawValue are the bytes as they stand in the body, escaped.
	// In a multipart form they are those of Name and Value.
	RawName, RawValue []byte
	// Name and Value are the bytes that are meant: escapes resolved, in the
	// sender's charset. Providers that sign fields sign these.
	Name, Value []byte
}

// Form is the fields of a form in the order they were sent.
type Form []Field

// ReadForm reads an application/x-www-form-urlencoded body. A plus sign is a
// space, a semicolon is itself, and a field without an equals sign is empty. An
// escape that is none ("%zz") is an error, since some readers keep it and others
// drop it. A byte order mark at the start is skipped.
//
// Repeated names are no error here: see Find and Object. Errors wrap ErrSyntax
// or ErrLimit.
func ReadForm(data []byte) (Form, error) {
	form := make(Form, 0, min(MaxFields, 1+bytes.Count(data, []byte("&"))))
	for rest, more := withoutBOM(data), true; more; {
		var pair []byte
		pair, rest, more = bytes.Cut(rest, []byte("&"))
		if len(pair) == 0 {
			continue
		}
		if len(form) == MaxFields {
			return nil, fmt.Errorf("%w: form of more than %d fields", ErrLimit, MaxFields)
		}
		var field Field
		field.RawName, field.RawValue, _ = bytes.Cut(pair, []byte("="))
		var err error
		if field.Name, err = unescape(field.RawName); err != nil {
			return nil, err
		}
		if field.Value, err = unescape(field.RawValue); err != nil {
			return nil, err
		}
		if len(field.Name) > MaxFieldName {
			return nil, fmt.Errorf("%w: field name of %d bytes", ErrLimit, len(field.Name))
		}
		form = append(form, field)
	}
	return form, nil
}

// unescape resolves plus signs and escapes; without any, b is returned itself.
func unescape(b []byte) ([]byte, error) {
	if bytes.IndexByte(b, '%') < 0 && bytes.IndexByte(b, '+') < 0 {
		return b, nil
	}
	plain := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '+':
			plain = append(plain, ' ')
		case '%':
			if i+2 >= len(b) || hexDigit(b[i+1]) < 0 || hexDigit(b[i+2]) < 0 {
				return nil, fmt.Errorf("%w: bad escape %q in a form", ErrSyntax, b[i:min(i+3, len(b))])
			}
			plain = append(plain, byte(hexDigit(b[i+1])<<4|hexDigit(b[i+2])))
			i += 2
		default:
			plain = append(plain, b[i])
		}
	}
	return plain, nil
}

// hexDigit is the value of a hexadecimal digit, -1 if c is none.
func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int(c | 0x20 - 'a' + 10)
	}
	return -1
}

// Find returns the value of the first field called name, in the sender's
// charset, and how many fields are called so: any count but 1 deserves thought.
func (f Form) Find(name string) (value []byte, count int) {
	for i := range f {
		if string(f[i].Name) != name {
			continue
		}
		if count == 0 {
			value = f[i].Value
		}
		count++
	}
	return value, count
}

// Object returns the form as jsondoc.Scan returns an object: values are strings,
// or jsondoc.Unstorable if they are no text of the charset. A repeated name is
// ErrAmbiguous; with repeats set it is a list of its values instead.
//
// The charset is the name that the sender declares, in a field that is signed
// wherever there is one; empty is UTF-8. A body that declares another charset,
// and whose bytes are valid UTF-8 all the same, has two readings: its values
// that are not ASCII are Unstorable, as are those of an unknown charset.
func (f Form) Object(charset string, repeats bool) (map[string]any, error) {
	values := make([][]byte, 0, 2*len(f))
	for i := range f {
		values = append(values, f[i].Name, f[i].Value)
	}
	t := newTexts(charset, values...)

	object := make(map[string]any, len(f))
	var lists map[string]bool
	for i := range f {
		name, value := t.name(f[i].Name), t.text(f[i].Value)
		before, found := object[name]
		switch {
		case !found:
			object[name] = value
		case !repeats:
			return nil, fmt.Errorf("%w: field %q is repeated", ErrAmbiguous, clip(name))
		case lists[name]:
			object[name] = append(before.([]any), value)
		default:
			if lists == nil {
				lists = make(map[string]bool)
			}
			object[name], lists[name] = []any{before, value}, true
		}
	}
	return object, nil
}
