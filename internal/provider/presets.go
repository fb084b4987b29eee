package provider

// presets lists every provider there is; each stands in the file of its family.
// A new one is a line here, its data there, and its vectors in testdata.
var presets = table(
	&generic, &standardWebhooks, // describe themselves
	&stripe, &github,
	// the body is signed
	&razorpay, &shopify, &shopifyEvents, &coinbaseCommerce, &gocardless, &woocommerce, &modernTreasury, &pusher,
	&paystack, &lemonSqueezy, &mollie, &checkout, &tebex, &mailersend, &xsolla, &meta,
	// and a time
	&paddle, &slack, &zoom, &recurly, &paymongo,
	// and the address
	&square, &hubspot, &hubspotV2, &hubspotV1, &twilio,
	// in ways of their own
	&adyen, &adyenPlatform, &braintree, &wechatV2,
	// with a key of the provider's own
	&wise, &sendgrid, &paypal, &alipay, &wechatV3, &apple, &googlePlay,
	// nothing of the body is signed
	&mollieClassic, &paypalIPN, &flutterwave, &chargebee, &graph, &mercadoPago,
)
