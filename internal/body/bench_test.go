package body_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/body"
	"github.com/onceledger/onceledger/internal/jsondoc"
)

func measure(b *testing.B, size int, run func() error) {
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		if err := run(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkView(b *testing.B) {
	all := vectors(b)
	gbk := []byte("subject=%B2%E2%CA%D4%C9%CC%C6%B7&total_amount=0.01&charset=GBK&trade_no=2023122122001")
	for _, c := range []struct {
		name string
		kind *body.Kind
		data []byte
	}{
		{"json", &body.Kind{}, all["V38"].Body},
		{"form/alipay", &body.Kind{Format: body.FormatForm, CharsetField: "charset"}, all["V62"].Body},
		{"form/gbk", alipayKind, gbk},
		{"xml/wechat", &body.Kind{Format: body.FormatXML}, []byte(wechat)},
		{"form+base64+xml/braintree", braintreeKind, all["V47"].Body},
		{"json+token/apple", appleKind, all["V57"].Body},
		{"json+aes/wechat", resource(wechatKey), all["V52"].Body},
		{"multipart", &body.Kind{Format: body.FormatMultipart}, []byte(strings.Repeat(part(named("a"), "1"), 1) + part(named("b"), "2") + "--B--")},
	} {
		b.Run(c.name, func(b *testing.B) {
			keep := jsondoc.NewPaths([]string{"events"}, []string{"id"})
			measure(b, len(c.data), func() error {
				_, err := body.View(c.kind, multipartB, c.data, keep)
				return err
			})
		})
	}
}

func BenchmarkSplit(b *testing.B) {
	var events []string
	for i := range 250 {
		events = append(events, fmt.Sprintf(`{"id":"EV%d","created_at":"2018-07-05T09:13:51.404Z","resource_type":"payments","action":"created","links":{"payment":"PM%d"}}`, i, i))
	}
	data := []byte(`{"events":[` + strings.Join(events, ",") + `]}`)
	b.Run("250", func(b *testing.B) {
		measure(b, len(data), func() error {
			_, err := body.Split(data, "events")
			return err
		})
	})
	b.Run("scan", func(b *testing.B) { // what checking the same bytes costs
		measure(b, len(data), func() error {
			_, err := jsondoc.Scan(data, nil)
			return err
		})
	})
}

func BenchmarkInflate(b *testing.B) {
	plain := []byte(strings.Repeat(`{"id":"evt_1","amount":100},`, 36)) // about 1 KiB
	packed := gzipped(b, plain)
	measure(b, len(plain), func() error {
		_, err := body.Inflate("gzip", packed, 1<<20)
		return err
	})
}

func BenchmarkToken(b *testing.B) {
	at := time.UnixMilli(1681314324000)
	apple, chain := signedPayload(b, vectors(b)["V57"].Body), appleChain(b, "test_ca")
	b.Run("apple chain", func(b *testing.B) {
		measure(b, len(apple), func() error {
			token, err := body.ParseToken(apple)
			if err != nil {
				return err
			}
			_, err = token.VerifyChain(chain, at, body.ES256)
			return err
		})
	})
	bearer, token := google(), sign(b, header, pubsub())
	b.Run("google bearer", func(b *testing.B) {
		measure(b, len(token), func() error {
			_, err := bearer.Verify(token, time.Unix(issuedAt, 0))
			return err
		})
	})
}

func BenchmarkSealed(b *testing.B) {
	doc, err := jsondoc.Scan(vectors(b)["V52"].Body, everything)
	require.NoError(b, err)
	ciphertext := decode64(b, lookup(b, doc, "resource", "ciphertext").(string))
	measure(b, len(ciphertext), func() error {
		plain, err := body.OpenSealed([]byte("Kj7QIyUiYx1q"), []byte("payscore"), ciphertext, wechatKey)
		if !bytes.HasPrefix(plain, []byte("{")) {
			b.Fatal(plain)
		}
		return err
	})
}
