package provider

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/jsondoc"
)

// token is a fixed text that every request repeats. It says who sends, not what:
// whoever has seen one request can make any other, so presets with a token are
// hints. One of the fields says where it stands.
type token struct {
	header string
	basic  bool // user:password in the Authorization header
	query  string
	// member of each item of a batch.
	batch, member string

	tokens []hashed
}

// hashed is a token's hash: of equal length, whatever is compared.
type hashed struct {
	sum  [sha256.Size]byte
	text string // for sign
}

func (k token) scheme(src config.Source, f *faults) scheme {
	k.header = http.CanonicalHeaderKey(k.header)
	for i, secret := range secrets(src, f) {
		if user, _, ok := strings.Cut(secret, ":"); k.basic && (!ok || user == "") {
			f.add(src.Pos, fmt.Sprintf("secrets[%d]", i), "is not user:password")
			continue
		}
		k.tokens = append(k.tokens, hashed{sha256.Sum256([]byte(secret)), secret})
	}
	if src.Tolerance != 0 {
		f.add(src.Pos, "tolerance", "no time is signed here, so there is nothing to tolerate; leave it out")
	}
	return &k
}

func (k *token) limit() time.Duration { return 0 }

func (k *token) verify(_ context.Context, req Request, _ time.Time) error {
	switch {
	case k.basic:
		value, err := req.hidden("Authorization")
		if err != nil {
			return err
		}
		user, password, ok := (&http.Request{Header: http.Header{"Authorization": {value}}}).BasicAuth()
		if !ok {
			return refuse("header Authorization is no basic authentication")
		}
		return k.check(user+":"+password, req.trace)
	case k.header != "":
		value, err := req.hidden(k.header)
		if err != nil {
			return err
		}
		return k.check(value, req.trace)
	case k.query != "":
		value, _ := queryValue(req.Query, k.query).(string)
		req.trace.concealed("query parameter", k.query, value)
		return k.check(value, req.trace)
	}
	return k.items(req.Body, req.trace)
}

// items verifies the token of each item of a batch.
func (k *token) items(data []byte, t *trace) error {
	items, _, err := split(data, k.batch)
	if err != nil || len(items) == 0 {
		return refuse("the body holds no items with a token")
	}
	paths := jsondoc.NewPaths([]string{k.member})
	for _, item := range items {
		doc, err := jsondoc.Scan(item.Data, paths)
		if err != nil {
			return refuse("an item cannot be read")
		}
		value, _ := jsondoc.Lookup(doc, k.member)
		text, _ := value.(string)
		t.concealed("member of the item", k.member, text)
		if err := k.check(text, t); err != nil {
			return err
		}
	}
	return nil
}

func (k *token) check(given string, t *trace) error {
	sum := sha256.Sum256([]byte(given))
	found := 0
	for i := range k.tokens {
		same := subtle.ConstantTimeCompare(sum[:], k.tokens[i].sum[:])
		t.token(i, same == 1)
		found |= same
	}
	if given == "" || found != 1 {
		return refuse("the token is missing, or none of the live ones")
	}
	return nil
}

func (k *token) sign(req *Request, _ string, _ time.Time) error {
	text := k.tokens[0].text
	switch {
	case k.basic:
		user, password, _ := strings.Cut(text, ":")
		signed := http.Request{Header: req.Header}
		signed.SetBasicAuth(user, password)
	case k.header != "":
		req.Header.Set(k.header, text)
	case k.query != "":
		req.Query = url.Values{k.query: {text}}.Encode()
	default:
		return k.signItems(req, text)
	}
	return nil
}

func (k *token) signItems(req *Request, text string) error {
	var batch map[string]json.RawMessage
	if err := json.Unmarshal(req.Body, &batch); err != nil {
		return err
	}
	var items []map[string]json.RawMessage
	if err := json.Unmarshal(batch[k.batch], &items); err != nil {
		return err
	}
	value, err := json.Marshal(text)
	if err != nil {
		return err
	}
	for _, item := range items {
		item[k.member] = value
	}
	if batch[k.batch], err = json.Marshal(items); err != nil {
		return err
	}
	req.Body, err = json.Marshal(batch)
	return err
}
