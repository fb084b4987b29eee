package provider

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"crypto/sha256"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/jsondoc"
)

// adyen is its payments webhooks. There is no event id, and one reference has
// many events, of which an authorisation may first fail and then succeed: code,
// reference and success are the key, within the merchant account. additionalData
// is not signed, so no rule should read money from it. Read:
// docs.adyen.com/development-resources/webhooks and its libraries.
var adyen = preset{
	name:     "adyen",
	signed:   "HMAC-SHA256, base64, hmacSignature of each item, over eight of its fields",
	secret:   "the HMAC key in hex, as the Customer Area shows it",
	scheme:   adyenScheme,
	batch:    adyenList,
	id:       []string{"body:NotificationRequestItem.eventCode", "body:NotificationRequestItem.pspReference", "body:NotificationRequestItem.success?"},
	typ:      []string{"body:NotificationRequestItem.eventCode"},
	account:  "body:NotificationRequestItem.merchantAccountCode",
	live:     "batch:live",
	occurred: "body:NotificationRequestItem.eventDate",
	fingerprint: []string{
		"NotificationRequestItem.eventCode", "NotificationRequestItem.pspReference", "NotificationRequestItem.originalReference",
		"NotificationRequestItem.merchantReference", "NotificationRequestItem.success", "NotificationRequestItem.amount",
	},
	ack: plainAck(http.StatusAccepted, "[accepted]"),
	sample: `{"live":"true","notificationItems":[{"NotificationRequestItem":{"eventCode":"AUTHORISATION","pspReference":"{id}",` +
		`"merchantAccountCode":"Shop","merchantReference":"order-{id}","amount":{"currency":"EUR","value":1000},"success":"true",` +
		`"eventDate":"2024-01-01T00:00:00+00:00"}}]}`,
	decimals: adyenDecimals,
	amount:   []string{"NotificationRequestItem.amount.value"},
	currency: []string{"NotificationRequestItem.amount.currency"},
}

// adyenPlatform is banking and marketplaces: the whole body is signed. An object
// has one id through all of its changes, so its state is part of the key.
var adyenPlatform = preset{
	name:        "adyen-platform",
	signed:      "HMAC-SHA256, base64, header HmacSignature, over the body",
	secret:      "the HMAC key in hex, as the Customer Area shows it",
	scheme:      mac{header: "HmacSignature", encoding: base64Text, key: hexKey}.scheme,
	id:          []string{"body:type", "body:data.id,data.accountHolder.id,data.balanceAccount.id", "body:data.sequenceNumber?", "body:data.status?", "body:timestamp?"},
	typ:         []string{"body:type"},
	account:     "body:data.balancePlatform",
	live:        "body:environment",
	occurred:    "body:timestamp",
	fingerprint: []string{"type", "data.id", "data.status", "data.amount", "data.sequenceNumber"},
	ack:         plainAck(http.StatusAccepted, "[accepted]"),
	sample: `{"environment":"live","type":"balancePlatform.transfer.updated","timestamp":"2024-01-01T00:00:00Z",` +
		`"data":{"id":"{id}","balancePlatform":"P1","balanceAccount":{"id":"BA1"},"direction":"incoming","status":"booked","sequenceNumber":2,"amount":{"currency":"EUR","value":1000}}}`,
	decimals: adyenDecimals,
	amount:   []string{"data.amount.value"},
	currency: []string{"data.amount.currency"},
}

// adyenDecimals are what docs.adyen.com/development-resources/currency-codes marks
// as other than the standard.
var adyenDecimals = map[string]int{"CLP": 2, "CVE": 0, "IDR": 0, "ISK": 2}

const (
	adyenList = "notificationItems"
	adyenItem = "NotificationRequestItem"
	adyenSign = "hmacSignature"
)

// adyenFields are signed in this order, joined by colons that are not escaped.
// The merchant's own reference alone may hold one: a colon elsewhere would give
// two items one signature (case 50).
var adyenFields = [...][]string{
	{adyenItem, "pspReference"}, {adyenItem, "originalReference"}, {adyenItem, "merchantAccountCode"},
	{adyenItem, "merchantReference"}, {adyenItem, "amount", "value"}, {adyenItem, "amount", "currency"},
	{adyenItem, "eventCode"}, {adyenItem, "success"},
}

const adyenReference = 3

var (
	adyenSignature = []string{adyenItem, "additionalData", adyenSign}
	adyenPaths     = jsondoc.NewPaths(append(adyenFields[:], adyenSignature)...)
)

// adyenItems verifies each item of a batch by itself. One bad item refuses the
// request: Adyen signs them all.
type adyenItems struct{ keys []*sync.Pool }

func adyenScheme(src config.Source, f *faults) scheme {
	s := &adyenItems{}
	for i, secret := range secrets(src, f) {
		key, err := hexKey(secret)
		if err != nil {
			f.add(src.Pos, fmt.Sprintf("secrets[%d]", i), "%v", err)
			continue
		}
		s.keys = append(s.keys, newKey(sha256.New, key))
	}
	if src.Tolerance != 0 {
		f.add(src.Pos, "tolerance", "no time is signed here, so there is nothing to tolerate; leave it out")
	}
	return s
}

func (s *adyenItems) limit() time.Duration { return 0 }

func (s *adyenItems) verify(_ context.Context, req Request, _ time.Time) error {
	items, _, err := split(req.Body, adyenList)
	if err != nil || len(items) == 0 {
		return refuse("the body holds no items that could be signed")
	}
	for i, item := range items {
		if err := s.item(item.Data, req.trace); err != nil {
			return fmt.Errorf("item %d of %d: %w", i+1, len(items), err)
		}
	}
	return nil
}

func (s *adyenItems) item(data []byte, t *trace) error {
	doc, err := jsondoc.Scan(data, adyenPaths)
	if err != nil {
		return refuse("an item cannot be read")
	}
	value, _ := jsondoc.Lookup(doc, adyenSignature...)
	signature, _ := value.(string)
	t.place("additionalData.hmacSignature of the item", signature)
	text, err := adyenText(doc)
	if err != nil {
		return err
	}
	t.message(text)
	for i, key := range s.keys {
		hasher := key.Get().(*hasher)
		sum := hasher.sum(template{bodyPart}, &signed{body: text})
		found := base64Text.equal(signature, sum)
		t.mac(i, "", base64Text, sum, found)
		key.Put(hasher)
		if found {
			return nil
		}
	}
	return refuse("no live secret has signed this item")
}

// adyenText is the text that is signed of an item.
func adyenText(doc any) ([]byte, error) {
	var text []byte
	for i, path := range adyenFields {
		value, _ := jsondoc.Lookup(doc, path...)
		part := scalar(value)
		switch flag, ok := value.(bool); {
		case ok:
			part = fmt.Sprint(flag)
		case part == "" && value != nil && value != "":
			return nil, refuse("field %s is neither text nor a whole number", strings.Join(path[1:], "."))
		case i != adyenReference && strings.Contains(part, ":"):
			return nil, refuse("field %s holds a colon, which would be taken for the next field", strings.Join(path[1:], "."))
		}
		if i > 0 {
			text = append(text, ':')
		}
		text = append(text, part...)
	}
	return text, nil
}

// sign writes each item's signature into its additionalData.
func (s *adyenItems) sign(req *Request, _ string, _ time.Time) error {
	doc, err := decodeJSON(string(req.Body))
	if err != nil {
		return err
	}
	list, _ := jsondoc.Lookup(doc, adyenList)
	items, ok := list.([]any)
	if !ok {
		return fmt.Errorf("the body has no list %s", adyenList)
	}
	hasher := s.keys[0].Get().(*hasher)
	defer s.keys[0].Put(hasher)
	for i := range items {
		item, err := encodeJSON(items[i])
		if err != nil {
			return err
		}
		fields, err := jsondoc.Scan(item, adyenPaths)
		if err != nil {
			return err
		}
		text, err := adyenText(fields)
		if err != nil {
			return err
		}
		signature := base64Text.encode(hasher.sum(template{bodyPart}, &signed{body: text}))
		if items[i], err = put(items[i], adyenSignature, signature); err != nil {
			return err
		}
	}
	req.Body, err = encodeJSON(doc)
	return err
}
