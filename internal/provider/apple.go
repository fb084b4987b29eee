package provider

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/big"
	"time"

	"github.com/onceledger/onceledger/internal/body"
	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/jsondoc"
)

// apple is App Store Server Notifications, version 2: a token whose certificates
// lead to Apple's root, which stands under public_keys. Many apps share that
// chain, so audience names the one bundle id that is listened to. What is signed
// twice (the transaction within the notification) is verified once, outside.
// Read: developer.apple.com, app-store-server-library-python.
var apple = preset{
	name:   "apple",
	signed: "JWS with ES256, in signedPayload, by a certificate that leads to Apple's root",
	secret: "none; public_keys has Apple Root CA - G3 of apple.com/certificateauthority, audience the bundle id",
	scheme: appleScheme,
	uses:   usesKeys | usesAudience,
	kind: body.Kind{Inner: []body.Inner{{
		Path: []string{"signedPayload"}, Open: body.OpenToken, Kind: body.Kind{Inner: []body.Inner{
			{Path: []string{"data", "signedTransactionInfo"}, Open: body.OpenToken},
			{Path: []string{"data", "signedRenewalInfo"}, Open: body.OpenToken},
		}},
	}}},
	id:       []string{"body:signedPayload.notificationUUID"},
	typ:      []string{"body:signedPayload.notificationType", "body:signedPayload.subtype"},
	account:  "body:signedPayload.data.bundleId,signedPayload.summary.bundleId",
	live:     "body:signedPayload.data.environment,signedPayload.summary.environment,signedPayload.environment",
	modes:    []word{{"Production", live}, {"Sandbox", test}, {"Xcode", test}, {"LocalTesting", test}},
	occurred: "body:signedPayload.signedDate",
	fingerprint: []string{
		"signedPayload.notificationType", "signedPayload.subtype", "signedPayload.data.bundleId", "signedPayload.data.environment",
		"signedPayload.data.signedTransactionInfo.transactionId", "signedPayload.data.signedTransactionInfo.originalTransactionId",
		"signedPayload.data.signedTransactionInfo.productId", "signedPayload.data.signedTransactionInfo.price",
		"signedPayload.data.signedTransactionInfo.currency", "signedPayload.data.signedTransactionInfo.revocationDate",
	},
	sample: `{"signedPayload":{"notificationType":"SUBSCRIBED","subtype":"INITIAL_BUY","notificationUUID":"{id}","version":"2.0","signedDate":1700000000000,` +
		`"data":{"bundleId":"{audience}","environment":"Production","signedTransactionInfo":{"transactionId":"{number}","originalTransactionId":"{number}",` +
		`"bundleId":"{audience}","productId":"gems.100","price":9990,"currency":"USD"}}}}`,
	amount:   []string{"signedPayload.data.signedTransactionInfo.price"},
	currency: []string{"signedPayload.data.signedTransactionInfo.currency"},
}

type appleToken struct {
	chain  body.Chain
	bundle string
	root   crypto.Signer // of a made-up chain; for sign
}

func appleScheme(src config.Source, f *faults) scheme {
	found, others := publicKeys(src, f)
	s := &appleToken{bundle: src.Audience.Value, root: found.private, chain: body.Chain{
		Roots: found.certificates, Leaf: body.AppleLeaf, Intermediate: body.AppleIntermediate,
	}}
	if len(found.certificates) == 0 {
		f.add(src.Pos, "public_keys", "Apple's root certificate is needed: Apple Root CA - G3 of https://www.apple.com/certificateauthority/")
	}
	if s.bundle == "" {
		f.add(src.Pos, "audience", "is needed: the bundle id of the app, since every app's notifications lead to the same root")
	}
	if len(others) > 0 {
		f.add(src.Pos, "secrets", "is no private key; Apple shares no secret")
	}
	if src.Tolerance != 0 {
		f.add(src.Pos, "tolerance", "notifications are repeated with the time of the first one for days; leave it out")
	}
	return s
}

func (s *appleToken) limit() time.Duration { return 0 }

func (s *appleToken) verify(_ context.Context, req Request, now time.Time) error {
	token := members(req.Body, []string{"signedPayload"})[0]
	if token == "" {
		req.trace.place("member signedPayload", "")
		return refuse("the body has no signedPayload")
	}
	parsed, err := body.ParseToken(token)
	req.trace.judged("member signedPayload", err)
	if err != nil {
		return refuse("signedPayload is no token that could be verified")
	}
	payload, err := parsed.VerifyChain(s.chain, now, body.ES256)
	req.trace.judged("chain of certificates to the root", err)
	if err != nil {
		return refuse("no certificate that leads to the root has signed signedPayload")
	}
	doc, err := jsondoc.Scan(payload, appleBundles)
	if err != nil {
		return refuse("signedPayload holds no JSON")
	}
	for _, path := range bundlePaths {
		value, _ := jsondoc.Lookup(doc, path...)
		if value != nil {
			req.trace.member(path, scalar(value), s.bundle)
		}
		switch value {
		case nil:
		case s.bundle:
			return nil
		default:
			return refuse("it is for another app than audience names")
		}
	}
	return refuse("it does not say for which app it is")
}

// bundlePaths are where a payload says for which app it is; the first counts.
var bundlePaths = [][]string{
	{"data", "bundleId"}, {"summary", "bundleId"}, {"externalPurchaseToken", "bundleId"}, {"appData", "bundleId"}, {"bundleId"},
}

var appleBundles = jsondoc.NewPaths(bundlePaths...)

var errNoRoot = errors.New("only Apple can sign for its root; to try this source, put a root certificate of your own " +
	"under public_keys and its private key (ECDSA, as PEM) under secrets, and take both out again")

// sign makes tokens of what stands open in signedPayload and within it, with a
// chain that leads to the source's own root; secrets must hold the root's
// private key. What is a token already stays as it is.
func (s *appleToken) sign(req *Request, _ string, now time.Time) error {
	if s.root == nil {
		return errNoRoot
	}
	middle, middleKey, err := issue(s.chain.Roots[0], s.root, body.AppleIntermediate, true, now)
	if err != nil {
		return err
	}
	leaf, leafKey, err := issue(middle, middleKey, body.AppleLeaf, false, now)
	if err != nil {
		return err
	}
	header, err := json.Marshal(map[string]any{
		"alg": body.ES256, "x5c": [][]byte{leaf.Raw, middle.Raw, s.chain.Roots[0].Raw},
	})
	if err != nil {
		return err
	}
	seal := func(open json.RawMessage) (any, error) { return appleSign(leafKey, header, open) }
	for _, path := range [][]string{
		{"signedPayload", "data", "signedTransactionInfo"}, {"signedPayload", "data", "signedRenewalInfo"}, {"signedPayload"},
	} {
		if req.Body, err = sealed(req.Body, seal, path...); err != nil {
			return err
		}
	}
	return nil
}

// appleSign returns the token of payload.
func appleSign(key *ecdsa.PrivateKey, header, payload []byte) (string, error) {
	raw := base64.RawURLEncoding
	text := raw.EncodeToString(header) + "." + raw.EncodeToString(payload)
	digest := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, key, digest[:])
	if err != nil {
		return "", err
	}
	var signature [64]byte
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return text + "." + raw.EncodeToString(signature[:]), nil
}

// issue makes a certificate with a mark of Apple's, valid for the day around now.
func issue(parent *x509.Certificate, signer crypto.Signer, mark asn1.ObjectIdentifier, authority bool, now time.Time) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: mark.String()},
		NotBefore: now.Add(-12 * time.Hour), NotAfter: now.Add(12 * time.Hour),
		IsCA: authority, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtraExtensions: []pkix.Extension{{Id: mark, Value: []byte{5, 0}}},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return nil, nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	return certificate, key, err
}
