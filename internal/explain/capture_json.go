package explain

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
)

// kept is a request in JSON: ours, or an entry of a HAR file.
type kept struct {
	Method  string          `json:"method"`
	URL     string          `json:"url"`
	Headers json.RawMessage `json:"headers"`
	Body    json.RawMessage `json:"body"`
	Base64  *string         `json:"body_base64"`

	Request *kept `json:"request"` // of a HAR entry
	Log     *struct {
		Entries []struct {
			Request kept `json:"request"`
		} `json:"entries"`
	} `json:"log"` // of a HAR file
	PostData *struct {
		Text     *string `json:"text"`
		Encoding string  `json:"encoding"`
	} `json:"postData"`
}

func (c *Captured) readJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	var k kept
	if err := d.Decode(&k); err != nil {
		return unreadable("%w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return unreadable("something stands after the JSON object; a file holds one request")
	}
	switch {
	case k.Log != nil:
		entry, err := k.posted()
		if err != nil {
			return err
		}
		k = *entry
	case k.Request != nil:
		k = *k.Request
	}
	if k.Method == "" {
		k.Method = "POST"
	}
	if !token(k.Method) {
		return unreadable("%q is no method", k.Method)
	}
	if k.URL == "" {
		k.URL = "/"
	}
	if err := c.target(k.Method, k.URL); err != nil {
		return err
	}
	if err := c.readHeaders(k.Headers); err != nil {
		return err
	}
	if err := c.readBody(&k); err != nil {
		return err
	}
	if bytes.Contains(c.Body, []byte("\uFFFD")) {
		c.note("the body holds U+FFFD: what stood there is lost; keep bodies that are not UTF-8 in body_base64")
	}
	return nil
}

// posted is the one request of a HAR file that was posted.
func (k *kept) posted() (*kept, error) {
	var posted []int
	for i, entry := range k.Log.Entries {
		if entry.Request.Method == "POST" {
			posted = append(posted, i)
		}
	}
	switch len(posted) {
	case 0:
		return nil, unreadable("none of the %d requests of the HAR file is a POST", len(k.Log.Entries))
	case 1:
		return &k.Log.Entries[posted[0]].Request, nil
	}
	return nil, unreadable("the HAR file has %d requests that are POST; give one of them, for example with: jq '.log.entries[%d]' FILE", len(posted), posted[0])
}

// readHeaders reads an object of texts or lists, or a list of name and value.
func (c *Captured) readHeaders(raw json.RawMessage) error {
	if len(raw) == 0 {
		return nil
	}
	var pairs []struct{ Name, Value string }
	if raw[0] == '[' {
		if err := json.Unmarshal(raw, &pairs); err != nil {
			return unreadable("headers: %w", err)
		}
		for _, pair := range pairs {
			if strings.HasPrefix(pair.Name, ":") {
				continue
			}
			if err := c.add(pair.Name, pair.Value); err != nil {
				return err
			}
		}
		return nil
	}
	var named map[string]json.RawMessage
	if err := json.Unmarshal(raw, &named); err != nil {
		return unreadable("headers: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		raw := named[name]
		var values []string
		if len(raw) > 0 && raw[0] != '[' {
			values = make([]string, 1)
			if err := json.Unmarshal(raw, &values[0]); err != nil {
				return unreadable("header %q is neither a text nor a list of texts", name)
			}
		} else if err := json.Unmarshal(raw, &values); err != nil {
			return unreadable("header %q is neither a text nor a list of texts", name)
		}
		for _, value := range values {
			if err := c.add(name, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// readBody takes body_base64, body, or the text of a HAR's postData.
func (c *Captured) readBody(k *kept) error {
	text := k.Base64
	if k.PostData != nil && k.PostData.Text != nil {
		if k.PostData.Encoding != "base64" {
			c.Body = []byte(*k.PostData.Text)
			return nil
		}
		text = k.PostData.Text
	}
	switch {
	case text != nil && len(k.Body) > 0:
		return unreadable("it has both body and body_base64")
	case text != nil:
		var err error
		if c.Body, err = base64.StdEncoding.DecodeString(*text); err != nil {
			return unreadable("body_base64: %w", err)
		}
	case len(k.Body) == 0:
		c.note("the capture has no body")
	case k.Body[0] == '"':
		var body string
		if err := json.Unmarshal(k.Body, &body); err != nil {
			return unreadable("body: %w", err)
		}
		c.Body = []byte(body)
	default:
		c.Body = k.Body
		c.note("body is parsed JSON, not the text that was received: it is taken as it stands in the file; keep the raw body as a text, or in body_base64")
	}
	return nil
}
