package provider

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// kibibyte is a body of 1 KiB, where it is a JSON object and shorter than that.
func kibibyte(body []byte) []byte {
	const size, around = 1 << 10, len(`,"pad":""}`)
	if body[0] != '{' || len(body) > size-around {
		return body
	}
	pad := bytes.Repeat([]byte("x"), size-around-len(body)+1)
	return append(append(append(body[:len(body)-1], `,"pad":"`...), pad...), `"}`...)
}

// BenchmarkRequest is what the receiver does with one request of 1 KiB, for
// each provider: verify it, and make events of it.
func BenchmarkRequest(b *testing.B) {
	ctx := context.Background()
	for _, name := range Names() {
		s := mustNew(b, sourceOf(b, name))
		req, err := s.Sign(kibibyte(s.Sample("evt_1")), "evt_1", now)
		require.NoError(b, err)
		b.Run(name+"/verify", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if s.Verify(ctx, req, now) != nil {
					b.Fatal("refused")
				}
			}
		})
		b.Run(name+"/events", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if events := s.Events(req, now); events[0].Fault != "" && !s.Hint() {
					b.Fatal("fault")
				}
			}
		})
	}
}
