package envelope_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/onceledger/onceledger/pkg/envelope"
)

func TestSubject(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ source, typ, want string }{
		{"stripe", "charge.succeeded", "events.stripe.charge.succeeded"},
		{"github", "issues.opened", "events.github.issues.opened"},
		{"stripe", "", "events.stripe.unknown"},
		{"", "x", "events._.x"},
		{"s", "payment captured", "events.s.payment_captured"},
		{"s", "a..b.", "events.s.a._.b._"},
		{"s", "*.>", "events.s._._"},
		{"a.b", "x", "events.a_b.x"},
		{"s", "x\r\nPUB y 1", "events.s.x__PUB_y_1"},
		{"s", "支払い", "events.s.___"},
		{"s", "a\xff", "events.s.a_"},
		{"s", "1.2.3.4.5.6.7.8.9", "events.s.1.2.3.4.5.6.7.8"},
		{"s", strings.Repeat("é", 70), "events.s." + strings.Repeat("_", 64)},
	} {
		require.Equal(t, row.want, envelope.Subject(row.source, row.typ))
	}
}

func TestSubjectIsAlwaysSafe(t *testing.T) {
	t.Parallel()
	safe := regexp.MustCompile(`^events(\.[A-Za-z0-9_-]{1,64}){2,9}$`)
	rapid.Check(t, func(t *rapid.T) {
		source, typ := rapid.String().Draw(t, "source"), rapid.String().Draw(t, "type")
		require.Regexp(t, safe, envelope.Subject(source, typ))
	})
}
