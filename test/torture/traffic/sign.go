package traffic

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Secrets are the keys of one run, as the configuration has them.
type Secrets struct{ Stripe, Orders string }

// Header signs a delivery as its provider does, at this moment.
func (k Secrets) Header(d Delivery, body []byte, now time.Time) http.Header {
	h := http.Header{"Content-Type": {"application/json"}}
	stamp := strconv.FormatInt(now.Unix(), 10)
	secret := k.Stripe
	if d.Event.Source == Orders {
		secret = strings.TrimPrefix(k.Orders, "whsec_")
	}
	key := []byte(secret)
	if d.Event.Source == Orders {
		key, _ = base64.StdEncoding.DecodeString(secret) // this run made it
	}
	if d.Event.Forged {
		key = []byte("a guess")
	}
	if d.Event.Source == Stripe {
		h.Set("Stripe-Signature", "t="+stamp+",v1="+hex.EncodeToString(sum(key, stamp+".", body)))
		return h
	}
	h.Set("webhook-id", d.Event.ID)
	h.Set("webhook-timestamp", stamp)
	h.Set("webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(sum(key, d.Event.ID+"."+stamp+".", body)))
	return h
}

func sum(key []byte, prefix string, body []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(prefix))
	mac.Write(body)
	return mac.Sum(nil)
}
