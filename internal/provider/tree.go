package provider

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/onceledger/onceledger/internal/body"
	"github.com/onceledger/onceledger/internal/jsondoc"
)

// JSON and XML as trees whose members are set, for samples and for what is sealed.

// decodeJSON reads one document, and numbers as they are spelt.
func decodeJSON(text string) (any, error) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one document")
	}
	return value, nil
}

// valueOf is text as JSON where it is JSON, and as a string elsewhere.
func valueOf(text string) any {
	if value, err := decodeJSON(text); err == nil {
		return value
	}
	return text
}

// put returns node with value at path.
func put(node any, path []string, value any) (any, error) {
	if len(path) == 0 {
		return value, nil
	}
	switch node := node.(type) {
	case map[string]any:
		child, err := put(node[path[0]], path[1:], value)
		node[path[0]] = child
		return node, err
	case []any:
		i, err := strconv.Atoi(path[0])
		if err != nil || i < 0 || i >= len(node) {
			return node, fmt.Errorf("%q is none of the %d items of a list", path[0], len(node))
		}
		node[i], err = put(node[i], path[1:], value)
		return node, err
	}
	child, err := put(nil, path[1:], value)
	return map[string]any{path[0]: child}, err
}

// encodeJSON is json.Marshal that leaves <, > and & as they are.
func encodeJSON(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, fmt.Errorf("write sample: %w", err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// sealed returns a JSON body in which the object or array at path, where there
// is one, is replaced by what seal makes of it.
func sealed(data []byte, seal func(open json.RawMessage) (any, error), path ...string) ([]byte, error) {
	doc, err := decodeJSON(string(data))
	if err != nil {
		return nil, err
	}
	value, _ := jsondoc.Lookup(doc, path...)
	switch value.(type) {
	case map[string]any, []any:
	default:
		return data, nil
	}
	open, err := encodeJSON(value)
	if err != nil {
		return nil, err
	}
	closed, err := seal(open)
	if err != nil {
		return nil, err
	}
	if doc, err = put(doc, path, closed); err != nil {
		return nil, err
	}
	return encodeJSON(doc)
}

// document writes the draft's XML. What would not read as it was meant is an error.
func (d *draft) document() ([]byte, error) {
	if root, _ := d.root.(map[string]any); len(root) > 1 {
		return nil, fmt.Errorf("set: %w outside the one element of the document", ErrNoPlace)
	}
	var out strings.Builder
	writeXML(&out, d.xml)
	text := []byte(out.String())
	again, err := body.ReadXML(text)
	if err == nil && !reflect.DeepEqual(again, d.xml) {
		err = errors.New("XML cannot hold it")
	}
	if err != nil {
		return nil, fmt.Errorf("set: %w", err)
	}
	return text, nil
}

// writeXML writes what body.ReadXML makes of elements, those of one parent in the
// order of their names.
func writeXML(out *strings.Builder, elements map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(elements)) {
		if strings.Contains(name, "@") {
			continue // an attribute, written with its element
		}
		out.WriteString("<" + name)
		for _, attribute := range slices.Sorted(maps.Keys(elements)) {
			if of, a, _ := strings.Cut(attribute, "@"); a != "" && of == name {
				fmt.Fprintf(out, ` %s="%s"`, a, xmlText(fmt.Sprint(elements[attribute])))
			}
		}
		out.WriteString(">")
		switch value := elements[name].(type) {
		case map[string]any:
			writeXML(out, value)
		case []any: // their names are dropped when they are read
			for _, item := range value {
				writeXML(out, map[string]any{"item": item})
			}
		case string:
			out.WriteString(xmlText(value))
		}
		out.WriteString("</" + name + ">")
	}
}
