package provider

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkRequest is what the receiver does with one request of 1 KiB.
func BenchmarkRequest(b *testing.B) {
	start := `{"id":"evt_1","object":"event","livemode":true,"created":1700000000,"type":"charge.succeeded",` +
		`"data":{"object":{"id":"ch_1","amount":1000,"currency":"eur"}},"note":"`
	body := []byte(start + strings.Repeat("x", 1022-len(start)) + `"}`)
	for _, name := range Names() {
		src := genericConfig()
		if name != "hmac" {
			src = configured(name, "b2xkIHNlY3JldA==")
		}
		s := mustNew(b, src)
		req, err := s.Sign(body, "msg_1", now)
		require.NoError(b, err)
		h := req.Header
		b.Run(name+"/verify", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if verify(s, h, body, now) != nil {
					b.Fatal("refused")
				}
			}
		})
		b.Run(name+"/event", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if eventOf(s, h, body, now).Fault != "" {
					b.Fatal("fault")
				}
			}
		})
	}
}
