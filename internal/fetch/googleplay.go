package fetch

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"

	"github.com/onceledger/onceledger/pkg/envelope"
)

// googlePlay is Google Play's real-time developer notifications, as Pub/Sub pushes
// them. The body is the purchase, the subscription or, where one was voided, the
// order. A purchase says what was bought, not for how much. Read:
// developer.android.com/google/play/billing/rtdn-reference,
// developers.google.com/android-publisher/api-ref/rest/v3.
type googlePlay struct{}

// The kinds of notifications.
const (
	playProduct      = "product"
	playSubscription = "subscription"
	playOrder        = "order"
)

// playStates are those of a product's purchase.
var playStates = map[string]string{"0": "purchased", "1": "canceled", "2": "pending"}

// Ask implements Fetcher.
func (googlePlay) Ask(hint *envelope.Event) (Ask, error) {
	pushed, err := read(hint.Data)
	if err != nil {
		return Ask{}, err
	}
	raw, err := base64.StdEncoding.DecodeString(pushed.text("message", "data"))
	if err != nil || len(raw) == 0 {
		return Ask{}, refuse("message.data of the notice is no base64")
	}
	notice, err := read(raw)
	if err != nil {
		return Ask{}, err
	}
	base := "/androidpublisher/v3/applications/"
	name, err := word("packageName of the notice", notice.text("packageName"))
	if err != nil {
		return Ask{}, err
	}
	base += escape(name)
	switch {
	case notice.has("oneTimeProductNotification"):
		sku, err := word("sku of the notice", notice.text("oneTimeProductNotification", "sku"))
		if err != nil {
			return Ask{}, err
		}
		token := notice.text("oneTimeProductNotification", "purchaseToken")
		return playAsk(playProduct, base+"/purchases/products/"+escape(sku)+"/tokens/", token)
	case notice.has("subscriptionNotification"):
		return playAsk(playSubscription, base+"/purchases/subscriptionsv2/tokens/", notice.text("subscriptionNotification", "purchaseToken"))
	case notice.has("voidedPurchaseNotification"):
		return playAsk(playOrder, base+"/orders/", notice.text("voidedPurchaseNotification", "orderId"))
	}
	return Ask{}, ErrKind // a test, a refund that waits for a review
}

// playToken is the token of a purchase, or the id of an order.
var playToken = regexp.MustCompile(`^[A-Za-z0-9_:-][A-Za-z0-9_.:-]{0,599}$`)

// playAsk asks for what has a token, or an order's id.
func playAsk(kind, path, token string) (Ask, error) {
	if !playToken.MatchString(token) {
		return Ask{}, refuse("the purchase token or order id of the notice is missing, or is none")
	}
	return Ask{Path: path + escape(token), object: token, kind: kind}, nil
}

// Facts implements Fetcher.
func (googlePlay) Facts(_ *envelope.Event, ask Ask, answer []byte) ([]Fact, error) {
	got, err := read(answer)
	if err != nil {
		return nil, err
	}
	var f gather
	switch ask.kind {
	case playProduct:
		f.mode = modeOf(got.text("purchaseType") != "0", true)
		state := playStates[got.text("purchaseState")]
		f.add(got, "product."+state, got.millis("purchaseTimeMillis"), ask.kind, playOf(got.text("orderId"), ask), state)
	case playSubscription:
		f.mode = modeOf(!got.has("testPurchase"), true)
		state := strings.ToLower(strings.TrimPrefix(got.text("subscriptionState"), "SUBSCRIPTION_STATE_"))
		f.add(got, "subscription."+state, got.instant("startTime"), ask.kind, playOf(got.text("latestOrderId"), ask), state)
	default:
		if err := same(got.text("orderId"), ask.object); err != nil {
			return nil, err
		}
		// An order may be refunded in parts, which its state does not tell apart.
		state, at := strings.ToLower(got.text("state")), got.instant("lastEventTime")
		f.add(got, "order."+state, at, ask.kind, ask.object, state, strconv.FormatInt(at.UnixMilli(), 10))
	}
	return f.facts, f.err
}

// playOf is an order's id, or a name for what has none: it was given away, or its
// first order is to come.
func playOf(order string, ask Ask) string {
	if order != "" {
		return order
	}
	sum := sha256.Sum256([]byte(ask.object))
	return "token-" + hex.EncodeToString(sum[:16])
}
