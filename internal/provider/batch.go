package provider

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/onceledger/onceledger/internal/body"
	"github.com/onceledger/onceledger/internal/jsondoc"
)

// split takes a batch apart at the member called name: its items, and what
// stands beside them. "." is an array that is the whole body, or a single event
// that is sent without the brackets.
func split(data []byte, name string) (items []body.Item, beside any, err error) {
	if name != "." {
		if items, err = body.Split(data, name); err != nil {
			return nil, nil, err
		}
		beside, err = besides(data, name)
		return items, beside, err
	}
	if trimmed := bytes.TrimLeft(data, "\xEF\xBB\xBF \t\r\n"); len(trimmed) > 0 && trimmed[0] == '{' {
		return []body.Item{{Data: data}}, nil, nil
	}
	items, err = body.Split(data)
	return items, nil, err
}

// besides reads the members of a batch but the one that holds its items: what
// is wrong with an item is no fault of those. The batch is known to be sound.
func besides(data []byte, name string) (any, error) {
	d := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(data, []byte("\xEF\xBB\xBF"))))
	if _, err := d.Token(); err != nil {
		return nil, malformed()
	}
	members := map[string]any{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, malformed()
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, malformed()
		}
		member, _ := token.(string)
		if member == name {
			continue
		}
		if members[member], err = jsondoc.Scan(raw, everything); err != nil {
			return nil, err
		}
	}
	return members, nil
}

// everything keeps a whole document.
var everything = jsondoc.NewPaths([]string{})

// malformed keeps no text of the decoder, which quotes its input.
func malformed() error { return fmt.Errorf("%w beside the items of a batch", jsondoc.ErrSyntax) }
