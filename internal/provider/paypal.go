package provider

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"time"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/keyring"
)

// paypal signs ids, a time, and the CRC-32 of the body, which anybody can keep
// the same while the body changes: what holds is that only PayPal's own requests
// carry such a signature over this webhook's id. Its certificate is fetched from
// the URL in the request, of PayPal's hosts alone, unless public_keys has it.
// Sandbox events come from the sandbox's hosts. Read: developer.paypal.com
// api/rest/webhooks, PayPal-Java-SDK.
var paypal = preset{
	name:     "paypal",
	signed:   "RSA with SHA-256, base64, header Paypal-Transmission-Sig, over id|time|webhook_id|CRC-32 of the body",
	secret:   "none; certificates are fetched from PayPal's hosts alone, of the sandbox with mode: test, unless public_keys has them",
	scheme:   paypalScheme,
	uses:     usesKeys | usesWebhookID,
	id:       []string{"body:id"},
	typ:      []string{"body:event_type"},
	occurred: "body:create_time",
	fingerprint: []string{
		"event_type", "resource_type", "resource.id", "resource.status", "resource.state", "resource.amount", "resource.custom_id",
		"resource.invoice_id", "resource.seller_payable_breakdown", "resource.seller_receivable_breakdown",
	},
	sample: `{"id":"{id}","event_version":"1.0","create_time":"2024-01-01T00:00:00.000Z","resource_type":"capture","event_type":"PAYMENT.CAPTURE.COMPLETED",` +
		`"resource":{"id":"cap_{id}","status":"COMPLETED","amount":{"value":"10.00","currency_code":"USD"}}}`,
	amount:   []string{"resource.amount.value"},
	currency: []string{"resource.amount.currency_code"},
}

const (
	paypalID   = "Paypal-Transmission-Id"
	paypalTime = "Paypal-Transmission-Time"
	paypalSign = "Paypal-Transmission-Sig"
	paypalURL  = "Paypal-Cert-Url"
	paypalAlgo = "Paypal-Auth-Algo"
)

type transmission struct {
	webhook string
	clock   clock
	keys    keys
	// certificates finds the key that a request names; nil where keys are given.
	certificates keyring.Certificates
}

func paypalScheme(src config.Source, f *faults) scheme {
	s := &transmission{webhook: src.WebhookID.Value, clock: clock{tolerance: src.Tolerance}}
	if s.webhook == "" {
		f.add(src.Pos, "webhook_id", "is needed: the id that PayPal shows for this endpoint, which it signs")
	}
	var others []string
	s.keys, others = publicKeys(src, f)
	if len(others) > 0 {
		f.add(src.Pos, "secrets", "is no private key; PayPal signs with one of its own, and knows the endpoint by webhook_id")
	}
	if len(s.keys.publics) == 0 {
		environment := keyring.Live
		if src.Mode == test {
			environment = keyring.Sandbox
		}
		s.certificates = keyring.PayPal(environment, f.options)
	}
	return s
}

func (s *transmission) limit() time.Duration { return s.clock.limit() }

func (s *transmission) verify(ctx context.Context, req Request, now time.Time) error {
	var values [5]string
	for i, name := range [...]string{paypalID, paypalTime, paypalSign, paypalAlgo} {
		var err error
		if values[i], err = req.single(name); err != nil {
			return err
		}
	}
	id, stamp, signature, algorithm := values[0], values[1], values[2], values[3]
	if algorithm != "SHA256withRSA" {
		return refuse("header %s names another algorithm than SHA256withRSA", paypalAlgo)
	}
	at, err := time.Parse(time.RFC3339, stamp)
	if err != nil {
		return refuse("header %s is no time", paypalTime)
	}
	if err := s.clock.near(at, now, req.trace); err != nil {
		return err
	}
	keys := s.keys
	if s.certificates != nil {
		if keys, err = s.fetch(ctx, req); err != nil {
			return err
		}
	}
	text := s.text(id, stamp, req.Body)
	req.trace.message(text)
	if !keys.verify(text, signature, req.trace) {
		return refuse("the signature is not by the key of the certificate; is webhook_id that of this endpoint?")
	}
	return nil
}

// fetch returns the key of the certificate that the request names.
func (s *transmission) fetch(ctx context.Context, req Request) (keys, error) {
	link, err := req.single(paypalURL)
	if err != nil {
		return keys{}, err
	}
	certificate, err := s.certificates.Certificate(ctx, link)
	req.trace.judged("certificate", err)
	switch {
	case errors.Is(err, keyring.ErrUnavailable):
		return keys{}, fmt.Errorf("verify request: %w: %w", ErrUnavailable, err)
	case err != nil:
		return keys{}, refuse("%v", err)
	}
	var found keys
	if err := found.addPublic(certificate.PublicKey); err != nil {
		return keys{}, refuse("the certificate's key %v", err)
	}
	return found, nil
}

func (s *transmission) text(id, stamp string, body []byte) []byte {
	sum := strconv.FormatUint(uint64(crc32.ChecksumIEEE(body)), 10)
	return []byte(id + "|" + stamp + "|" + s.webhook + "|" + sum)
}

func (s *transmission) sign(req *Request, id string, now time.Time) error {
	stamp := now.UTC().Format(time.RFC3339)
	signature, err := s.keys.sign(s.text(id, stamp, req.Body))
	if err != nil {
		return err
	}
	req.Header.Set(paypalID, id)
	req.Header.Set(paypalTime, stamp)
	req.Header.Set(paypalAlgo, "SHA256withRSA")
	req.Header.Set(paypalSign, signature)
	return nil
}
