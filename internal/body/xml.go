package body

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/onceledger/onceledger/internal/jsondoc"
)

const (
	// MaxXMLDepth is how deep elements may nest: as deep as JSON.
	MaxXMLDepth = jsondoc.MaxDepth
	// MaxElements is how many elements a document may have: one costs some
	// hundred bytes of memory for as few as four of the body.
	MaxElements = 10_000
	// MaxAttributes is how many attributes one element may have.
	MaxAttributes = 32
)

// ReadXML reads an XML document as jsondoc.Scan reads an object. Its one member
// is the root element. An element with child elements is an object of them, any
// other is its text, a string, with CDATA and space kept as they are. The
// attribute a of element e is the member "e@a" beside "e".
//
// Rails' convention, which Braintree has, is followed: type="array" makes an
// element the list of its children (whose names and attributes are dropped), and
// nil="true" makes an empty element nil.
//
// There is no DTD, no entity but the five of XML and those by number, and no
// processing instruction but the declaration at the start, whose charset alone
// counts: unlike the request's header it is signed with the body. A repeated
// child, text between child elements, a comment within text, and a declared
// charset while the bytes are UTF-8, too (see Form.Object), are errors. They
// wrap ErrSyntax, ErrAmbiguous, ErrText or ErrLimit.
func ReadXML(data []byte) (map[string]any, error) {
	data = withoutBOM(data)
	text, err := newTexts(xmlCharset(data), data).decode(data)
	if err != nil {
		return nil, fmt.Errorf("read XML: %w", err)
	}
	r := xmlReader{stack: []*element{{}}}
	doc, err := r.read(text)
	if err != nil {
		return nil, fmt.Errorf("read XML: %w", err)
	}
	return doc, nil
}

// xmlCharset returns the charset that the declaration of a document names, empty
// for UTF-8.
func xmlCharset(data []byte) (label string) {
	if !bytes.HasPrefix(data, []byte("<?xml")) {
		return ""
	}
	d := xml.NewDecoder(bytes.NewReader(data))
	d.CharsetReader = func(named string, input io.Reader) (io.Reader, error) {
		label = named
		return input, nil
	}
	_, _ = d.RawToken() // its error is met again by the reader
	return label
}

// xmlReader is one pass over a document. It takes raw tokens of encoding/xml and
// checks what they leave to their reader.
type xmlReader struct {
	// stack is the open elements; the first stands for the document.
	stack    []*element
	elements int
}

// element is an open element.
type element struct {
	name string
	text []byte
	// children and list are what an object and an array hold so far.
	children map[string]any
	list     []any
	isList   bool
	isNil    bool
	comment  bool
}

func (r *xmlReader) read(text string) (map[string]any, error) {
	d := xml.NewDecoder(strings.NewReader(text))
	d.CharsetReader = func(_ string, input io.Reader) (io.Reader, error) { return input, nil }
	for {
		start := d.InputOffset()
		token, err := d.RawToken()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrSyntax, err)
		}
		if err := r.take(token, start, text[start:d.InputOffset()]); err != nil {
			return nil, fmt.Errorf("%w at byte %d", err, start)
		}
	}
	if len(r.stack) > 1 || r.stack[0].children == nil {
		return nil, fmt.Errorf("%w: the document ends early", ErrSyntax)
	}
	return r.stack[0].children, nil
}

func (r *xmlReader) take(token xml.Token, start int64, raw string) error {
	top := r.stack[len(r.stack)-1]
	switch token := token.(type) {
	case xml.StartElement:
		return r.open(token, raw)
	case xml.EndElement:
		return r.close(xmlName(token.Name))
	case xml.CharData:
		if len(r.stack) == 1 && !blank(token) {
			return fmt.Errorf("%w: text outside the root element", ErrSyntax)
		}
		if !strings.HasPrefix(raw, "<![CDATA[") && halfPair(raw) {
			return fmt.Errorf("%w: half a surrogate pair", ErrText)
		}
		top.text = append(top.text, token...)
		return nil
	case xml.Comment:
		top.comment = true
		return nil
	case xml.ProcInst:
		if token.Target == "xml" && start == 0 {
			return nil
		}
		return fmt.Errorf("%w: processing instruction %q", ErrSyntax, clip(token.Target))
	}
	return fmt.Errorf("%w: a document type is not read", ErrSyntax)
}

// open begins an element.
func (r *xmlReader) open(token xml.StartElement, raw string) error {
	parent := r.stack[len(r.stack)-1]
	name := xmlName(token.Name)
	r.elements++
	switch {
	case r.elements > MaxElements:
		return fmt.Errorf("%w: more than %d elements", ErrLimit, MaxElements)
	case len(r.stack) > MaxXMLDepth:
		return fmt.Errorf("%w: elements nest deeper than %d", ErrLimit, MaxXMLDepth)
	case len(token.Attr) > MaxAttributes:
		return fmt.Errorf("%w: element with more than %d attributes", ErrLimit, MaxAttributes)
	case len(r.stack) == 1 && parent.children != nil:
		return fmt.Errorf("%w: a second root element", ErrSyntax)
	case halfPair(raw):
		return fmt.Errorf("%w: half a surrogate pair", ErrText)
	}
	if parent.children == nil {
		parent.children = make(map[string]any)
	}
	opened := &element{name: name}
	for _, attr := range token.Attr {
		attribute := xmlName(attr.Name)
		opened.isList = opened.isList || attribute == "type" && attr.Value == "array"
		opened.isNil = opened.isNil || attribute == "nil" && attr.Value == "true"
		if parent.isList {
			continue
		}
		if err := parent.put(name+"@"+attribute, attr.Value); err != nil {
			return err
		}
	}
	r.stack = append(r.stack, opened)
	return nil
}

// close ends the innermost element and gives its value to its parent.
func (r *xmlReader) close(name string) error {
	e := r.stack[len(r.stack)-1]
	if len(r.stack) == 1 || e.name != name {
		return fmt.Errorf("%w: </%s> closes nothing", ErrSyntax, clip(name))
	}
	r.stack = r.stack[:len(r.stack)-1]
	parent := r.stack[len(r.stack)-1]
	value, err := e.value()
	if err != nil {
		return err
	}
	if parent.isList {
		parent.list = append(parent.list, value)
		return nil
	}
	return parent.put(name, value)
}

// put sets a member of an element that is an object.
func (e *element) put(name string, value any) error {
	if _, found := e.children[name]; found {
		return fmt.Errorf("%w: %q is repeated", ErrAmbiguous, clip(name))
	}
	e.children[name] = value
	return nil
}

func (e *element) value() (any, error) {
	switch holds := e.children != nil; {
	case (holds || e.isList) && !blank(e.text):
		return nil, fmt.Errorf("%w: text beside the children of %q", ErrSyntax, clip(e.name))
	case e.isNil && (holds || !blank(e.text)):
		return nil, fmt.Errorf("%w: %q is nil, but not empty", ErrAmbiguous, clip(e.name))
	case e.isNil:
		return nil, nil
	case e.isList:
		return append([]any{}, e.list...), nil
	case holds:
		return e.children, nil
	case e.comment && !blank(e.text):
		return nil, fmt.Errorf("%w: a comment within the text of %q, which some readers take for its end", ErrAmbiguous, clip(e.name))
	}
	return string(e.text), nil
}

// xmlName is a name as it is written, prefix and all.
func xmlName(name xml.Name) string {
	if name.Space == "" {
		return name.Local
	}
	return name.Space + ":" + name.Local
}

// halfPair reports whether raw refers to half a surrogate pair by number, for
// which encoding/xml gives U+FFFD.
func halfPair(raw string) bool {
	for {
		_, rest, found := strings.Cut(raw, "&#")
		if !found {
			return false
		}
		raw = rest
		digits, hex := strings.CutPrefix(rest, "x")
		base, number := 10, 0
		if hex {
			base = 16
		}
		for i := 0; i < len(digits) && digits[i] != ';' && number <= 0x10FFFF; i++ {
			number = number*base + max(hexDigit(digits[i]), 0)
		}
		if 0xD800 <= number && number <= 0xDFFF {
			return true
		}
	}
}

func blank(text []byte) bool { return len(bytes.Trim(text, " \t\r\n")) == 0 }
