package provider

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/onceledger/onceledger/internal/jsondoc"
)

// maxItems bounds the events of one request: what a batch of 1 MB can hold of
// the smallest that providers send.
const maxItems = 4000

// batchSteps reads "events[]", "[]" or "items[].inner": member names, and an
// empty step for each array.
func batchSteps(text string) []string {
	if text == "" {
		return nil
	}
	name, inner, _ := strings.Cut(text, "[]")
	var steps []string
	if name != "" {
		steps = append(steps, name)
	}
	steps = append(steps, "")
	if inner = strings.TrimPrefix(inner, "."); inner != "" {
		steps = append(steps, inner)
	}
	return steps
}

// split takes a batch apart: the bytes of each item exactly as they stand in
// body, and what stands beside them. A repeated member name within an item is
// the item's own fault, one on the way to it is the batch's.
func split(body []byte, steps []string) (beside any, items [][]byte, err error) {
	body = bytes.TrimPrefix(body, []byte("\xEF\xBB\xBF"))
	list := body
	if steps[0] != "" {
		var members map[string]json.RawMessage
		if members, err = shallow(body); err != nil {
			return nil, nil, err
		}
		list = members[steps[0]]
		delete(members, steps[0])
		if beside, err = scanAll(members); err != nil {
			return nil, nil, err
		}
		steps = steps[1:]
	}
	if steps[0] == "" && len(steps) == 1 && object(list) {
		return beside, [][]byte{list}, nil // a batch of one, without its brackets
	}
	if items, err = elements(list); err != nil {
		return nil, nil, err
	}
	if len(steps) == 1 {
		return beside, items, nil
	}
	for i, item := range items {
		members, err := shallow(item)
		if err != nil {
			return nil, nil, err
		}
		if inner, ok := members[steps[1]]; ok {
			items[i] = inner
		}
	}
	return beside, items, nil
}

func object(data []byte) bool {
	data = bytes.TrimLeft(data, " \t\r\n")
	return len(data) > 0 && data[0] == '{'
}

// shallow returns the members of an object, each as its bytes.
func shallow(data []byte) (map[string]json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	if err := open(d, '{'); err != nil {
		return nil, err
	}
	members := map[string]json.RawMessage{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, malformed(err)
		}
		name, _ := token.(string)
		if _, ok := members[name]; ok {
			return nil, fmt.Errorf("%w beside the items of a batch", jsondoc.ErrAmbiguous)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, malformed(err)
		}
		members[name] = value
	}
	return members, end(d)
}

// elements returns the elements of an array, each as its bytes.
func elements(data []byte) ([][]byte, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	if err := open(d, '['); err != nil {
		return nil, err
	}
	var items [][]byte
	for d.More() {
		if len(items) == maxItems {
			return nil, fmt.Errorf("%w: more than %d items", jsondoc.ErrSyntax, maxItems)
		}
		var item json.RawMessage
		if err := d.Decode(&item); err != nil {
			return nil, malformed(err)
		}
		items = append(items, item)
	}
	return items, end(d)
}

func open(d *json.Decoder, bracket json.Delim) error {
	token, err := d.Token()
	if err != nil {
		return malformed(err)
	}
	if token != bracket {
		return fmt.Errorf("%w: no %s where a batch has one", jsondoc.ErrSyntax, bracket)
	}
	return nil
}

// end reads the closing bracket, after which there may be white space only.
func end(d *json.Decoder) error {
	if _, err := d.Token(); err != nil {
		return malformed(err)
	}
	if d.More() {
		return fmt.Errorf("%w: more after the document", jsondoc.ErrSyntax)
	}
	return nil
}

// malformed keeps no text of the decoder, which quotes its input.
func malformed(error) error { return fmt.Errorf("%w in a batch", jsondoc.ErrSyntax) }

// scanAll reads what stands beside the items.
func scanAll(members map[string]json.RawMessage) (any, error) {
	everything := jsondoc.NewPaths([]string{})
	beside := make(map[string]any, len(members))
	for name, raw := range members {
		value, err := jsondoc.Scan(raw, everything)
		if err != nil {
			return nil, err
		}
		beside[name] = value
	}
	return beside, nil
}
