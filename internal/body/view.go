package body

import (
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

// Kind says how to read the bodies of a source. The zero Kind is JSON. It is
// immutable and safe for concurrent use.
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
	// Path leads to the member, through objects. Where it is absent or null,
	// nothing is done.
	Path []string
	// Open turns the text into the document's bytes, given the members beside
	// it: Base64Std.Open, OpenToken, OpenResource(keys...). Nil is the text itself.
	Open func(text string, beside map[string]any) ([]byte, error)
	// Kind says how to read what Open returns.
	Kind Kind
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
	if kind.Format == FormatJSON && len(kind.Inner) == 0 {
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
		if err := k.Inner[i].replace(doc); err != nil {
			return nil, fmt.Errorf("read %q: %w", k.Inner[i].Path, err)
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

// replace puts the document that a member holds in the member's place.
func (in *Inner) replace(doc any) error {
	last := len(in.Path) - 1
	around, _ := jsondoc.Lookup(doc, in.Path[:last]...)
	beside, _ := around.(map[string]any)
	var text string
	switch value := beside[in.Path[last]].(type) {
	case nil:
		return nil
	case string:
		text = value
	case jsondoc.Unstorable:
		return ErrText
	default:
		return fmt.Errorf("%w: it is no text", ErrSyntax)
	}
	data := []byte(text)
	if in.Open != nil {
		var err error
		if data, err = in.Open(text, beside); err != nil {
			return err
		}
	}
	inner, err := in.Kind.whole("", data)
	if err != nil {
		return err
	}
	beside[in.Path[last]] = inner
	return nil
}
