package provider

import (
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/onceledger/onceledger/internal/body"
	"github.com/onceledger/onceledger/internal/config"
)

// twilio signs the URL and the form's fields; of a JSON body, the URL in whose
// query its hash stands. A message has one id and many states. An answer is read
// as TwiML: an empty one does nothing. Read: the validators of twilio-go, -node
// and -python; that retries repeat the id and the state is assumed.
var twilio = preset{
	name:        "twilio",
	signed:      "HMAC-SHA1, base64, header X-Twilio-Signature, over url and sorted fields",
	secret:      "the account's auth token",
	scheme:      twilioScheme,
	uses:        usesURL,
	kind:        body.Kind{Format: body.FormatForm, Repeats: true},
	orJSON:      true,
	id:          []string{"body:MessageSid,SmsSid,CallSid,Sid", "body:MessageStatus,SmsStatus,CallStatus?", "body:SequenceNumber?"},
	typ:         []string{"body:MessageStatus,SmsStatus,CallStatus"},
	account:     "body:AccountSid",
	ack:         xmlAck(http.StatusOK, `<?xml version="1.0" encoding="UTF-8"?><Response/>`),
	keep:        []string{"I-Twilio-Idempotency-Token"},
	contentType: "application/x-www-form-urlencoded",
	sample:      "MessageSid=SM{id}&AccountSid=AC1&MessageStatus=delivered&From=%2B14158675309&To=%2B18005551212",
}

const (
	twilioHeader = "X-Twilio-Signature"
	twilioHash   = "bodySHA256"
)

type twilioURL struct {
	target target
	keys   []*sync.Pool
}

func twilioScheme(src config.Source, f *faults) scheme {
	s := &twilioURL{}
	s.target.configure(src, f)
	for _, secret := range secrets(src, f) {
		s.keys = append(s.keys, newKey(sha1.New, []byte(secret)))
	}
	if src.Tolerance != 0 {
		f.add(src.Pos, "tolerance", "no time is signed here, so there is nothing to tolerate; leave it out")
	}
	return s
}

func (s *twilioURL) limit() time.Duration { return 0 }

func (s *twilioURL) verify(_ context.Context, req Request, _ time.Time) error {
	signature, err := req.single(twilioHeader)
	if err != nil {
		return err
	}
	fields, err := twilioFields(req)
	if err != nil {
		return err
	}
	full := s.target.of(req.Query)
	for i, key := range s.keys {
		hasher := key.Get().(*hasher)
		found := false
		for _, address := range [...]string{full, otherPort(full)} {
			text := signed{url: address, body: fields}
			sum := hasher.sum(twilioText, &text)
			found = base64Text.equal(signature, sum)
			req.trace.text(twilioText, &text)
			req.trace.mac(i, "", base64Text, sum, found)
			if found {
				break
			}
		}
		key.Put(hasher)
		if found {
			return nil
		}
	}
	return refuse("no live secret has signed the URL and the fields; is url: what is registered, to the letter?")
}

var twilioText = mustTemplate("{url}{body}")

// twilioFields is what is signed beside the URL: the fields by their names, each
// value once; nothing of a JSON body, whose hash is in the query.
func twilioFields(req Request) ([]byte, error) {
	if hash, ok := queryValue(req.Query, twilioHash).(string); ok {
		sum := sha256.Sum256(req.Body)
		if want, err := hex.DecodeString(hash); err != nil || !hmac.Equal(want, sum[:]) {
			return nil, refuse("the body has another hash than the URL says")
		}
		return nil, nil
	}
	form, err := body.ReadForm(req.Body)
	if err != nil {
		return nil, refuse("the body is no form")
	}
	pairs := make([][2]string, len(form))
	for i, field := range form {
		pairs[i] = [2]string{string(field.Name), string(field.Value)}
	}
	slices.SortFunc(pairs, func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	var text []byte
	for _, pair := range slices.Compact(pairs) {
		text = append(append(text, pair[0]...), pair[1]...)
	}
	return text, nil
}

// otherPort is a URL with the port of its scheme, or without it: senders write
// it or not, whatever is registered.
func otherPort(full string) string {
	u, err := url.Parse(full)
	if err != nil {
		return full
	}
	port := ":443"
	if u.Scheme == "http" {
		port = ":80"
	}
	scheme, rest, _ := strings.Cut(full, "://")
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	host := rest[:end]
	if bare, ok := strings.CutSuffix(host, port); ok {
		return scheme + "://" + bare + rest[end:]
	}
	if u.Port() != "" {
		return full
	}
	return scheme + "://" + host + port + rest[end:]
}

func (s *twilioURL) sign(req *Request, _ string, _ time.Time) error {
	if looksLikeJSON(req.Body) {
		sum := sha256.Sum256(req.Body)
		req.Query = twilioHash + "=" + hex.EncodeToString(sum[:])
		req.Header.Set("Content-Type", "application/json")
	}
	fields, err := twilioFields(*req)
	if err != nil {
		return err
	}
	hasher := s.keys[0].Get().(*hasher)
	defer s.keys[0].Put(hasher)
	sum := hasher.sum(twilioText, &signed{url: s.target.of(req.Query), body: fields})
	req.Header.Set(twilioHeader, base64Text.encode(sum))
	return nil
}
