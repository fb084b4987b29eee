package body

import (
	"bytes"
	"fmt"
	"mime"

	"github.com/onceledger/onceledger/internal/jsondoc"
)

// Format is how the bytes of a body are laid out. It is the preset's to say:
// what a request's header claims is not signed, and often wrong (case 81).
type Format int

// The formats.
const (
	FormatJSON Format = iota
	FormatForm
	FormatMultipart
	FormatXML
)

// FormatOf tells the format by how data begins, for sources that send several:
// an object or array of JSON, an element of XML, a boundary, or else a form.
func FormatOf(data []byte) Format {
	switch data = bytes.TrimLeft(withoutBOM(data), " \t\r\n"); {
	case bytes.HasPrefix(data, []byte("{")), bytes.HasPrefix(data, []byte("[")):
		return FormatJSON
	case bytes.HasPrefix(data, []byte("<")):
		return FormatXML
	case bytes.HasPrefix(data, []byte("--")):
		return FormatMultipart
	}
	return FormatForm
}

// Kind says how to read the bodies of a source. A nil and a zero Kind are JSON.
// It is immutable and safe for concurrent use.
type Kind struct {
	Format Format
	// CharsetField is the form field that names the charset, as Alipay's and
	// PayPal's "charset" do; without it the Content-Type does.
	CharsetField string
	// Repeats lets form fields be repeated; their values are lists then.
	Repeats bool
	// Inner are the members that hold another document.
	Inner []Inner
}

// Inner is a member whose text holds another document, which View puts in its
// place: rules read body.message.data.orderId though data is base64.
type Inner struct {
	// Path leads to the member, through objects; it is never empty. Where the
	// member is absent or null, nothing is done, unless it is Required.
	Path []string
	// Open turns the text into the document's bytes, given the members beside
	// it: Base64Std.Open, OpenToken, OpenResource(keys...). Nil is the text itself.
	Open func(text string, beside map[string]any) ([]byte, error)
	// Kind says how to read what Open returns.
	Kind Kind
	// Whole makes the document the body, in place of all around it, so that a
	// rule need not know how an event was wrapped. Such an Inner is the last.
	Whole bool
	// Required makes a body without the member malformed.
	Required bool
}

// View returns the body that rules read, made of the values of jsondoc.Scan,
// whatever data's format. The content type matters for the boundary of a
// multipart form and for the charset of forms, and for nothing else.
//
// JSON without Inner is jsondoc.Scan: only what keep names is built. All else is
// small and is built whole, unless keep is nil: then it is checked, and the
// result is nil. What is not kept is checked all the same, so that acceptance
// never depends on keep.
//
// Errors are those of the readers; Reason maps them. An Inner that does not open
// is an error of the whole body.
func View(kind *Kind, contentType string, data []byte, keep *jsondoc.Paths) (any, error) {
	if kind == nil || kind.Format == FormatJSON && len(kind.Inner) == 0 {
		return jsondoc.Scan(data, keep)
	}
	doc, err := kind.whole(contentType, data)
	if err != nil || keep == nil {
		return nil, err
	}
	return doc, nil
}

// whole reads data and everything in it.
func (k *Kind) whole(contentType string, data []byte) (any, error) {
	doc, err := k.outer(contentType, data)
	if err != nil {
		return nil, err
	}
	for i := range k.Inner {
		in := &k.Inner[i]
		inner, around, err := in.read(doc)
		switch {
		case err != nil:
			return nil, fmt.Errorf("read %q: %w", in.Path, err)
		case around == nil && in.Required:
			return nil, fmt.Errorf("%w: there is no %q", ErrSyntax, in.Path)
		case around == nil:
		case in.Whole:
			doc = inner
		default:
			around[in.Path[len(in.Path)-1]] = inner
		}
	}
	return doc, nil
}

func (k *Kind) outer(contentType string, data []byte) (any, error) {
	switch k.Format {
	case FormatXML:
		return ReadXML(data)
	case FormatForm:
		form, err := ReadForm(data)
		if err != nil {
			return nil, err
		}
		return form.Object(k.charset(form, contentType), k.Repeats)
	case FormatMultipart:
		form, err := ReadMultipart(data, contentType)
		if err != nil {
			return nil, err
		}
		return form.Object("", k.Repeats)
	}
	return jsondoc.Scan(data, wholeDocument)
}

// charset returns what a form declares. A content type that cannot be read
// declares nothing.
func (k *Kind) charset(form Form, contentType string) string {
	if k.CharsetField != "" {
		if name, count := form.Find(k.CharsetField); count > 0 {
			return string(name)
		}
	}
	_, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return ""
	}
	return params["charset"]
}

// read returns the document that a member of doc holds, and the object the
// member stands in; neither if it is not there.
func (in *Inner) read(doc any) (inner any, around map[string]any, err error) {
	last := len(in.Path) - 1
	above, _ := jsondoc.Lookup(doc, in.Path[:last]...)
	around, _ = above.(map[string]any)
	var text string
	switch value := around[in.Path[last]].(type) {
	case nil:
		return nil, nil, nil
	case string:
		text = value
	case jsondoc.Unstorable:
		return nil, nil, ErrText
	default:
		return nil, nil, fmt.Errorf("%w: it is no text", ErrSyntax)
	}
	data := []byte(text)
	if in.Open != nil {
		if data, err = in.Open(text, around); err != nil {
			return nil, nil, err
		}
	}
	inner, err = in.Kind.whole("", data)
	return inner, around, err
}
