package fetch

// api is how one provider is asked.
type api struct {
	// url is where its API is; empty: the source has to say, and wants says what.
	url, wants string
	auth       func(token string, c *Client) (authorizer, error)
	fetcher    Fetcher
	// modal says that its objects are live or test; one that does not say which is
	// of the source's mode.
	modal bool
}

// apis lists every provider whose hints are looked up, by its preset's name; each
// stands in a file of its own.
var apis = map[string]api{
	"mollie-classic": {url: "https://api.mollie.com", auth: bearer, fetcher: mollie{}},
	"stripe":         {url: "https://api.stripe.com", auth: bearer, fetcher: stripe{}},
	"google-play":    {url: "https://androidpublisher.googleapis.com", auth: serviceAccount, fetcher: googlePlay{}, modal: true},
	"mercado-pago":   {url: "https://api.mercadopago.com", auth: bearer, fetcher: mercadoPago{}},
	"flutterwave":    {url: "https://api.flutterwave.com", auth: bearer, fetcher: flutterwave{}},
	"chargebee":      {wants: "https://SITE.chargebee.com, where your site is", auth: basic, fetcher: chargebee{}},
}
