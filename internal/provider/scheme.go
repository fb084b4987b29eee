package provider

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/onceledger/onceledger/internal/config"
)

const (
	// maxParts bounds the parts of one signature header, and so the work an
	// unsigned request can cause. A rotation needs three or four.
	maxParts = 16
	// maxSecrets bounds the live secrets of a source for the same reason.
	maxSecrets = 8
	// tolerance is how far a signed time may be from the clock, in either
	// direction, where a provider does not say otherwise.
	tolerance = 5 * time.Minute
	// maxStamp bounds the digits of a time in unix seconds. Milliseconds have 13.
	maxStamp = 12
)

// errUnsigned is what sign returns where the source only knows public keys.
var errUnsigned = errors.New("only the provider can sign for its public key; to try this source, put a private key of your own " +
	"(RSA or ECDSA, as PEM) under secrets, and take it out again")

// scheme is one way to sign requests.
type scheme interface {
	// verify wraps ErrSignature or ErrUnavailable in whatever it returns.
	verify(ctx context.Context, req Request, now time.Time) error
	// sign completes req, whose Method, Header and Body are set, as the provider
	// would: with headers, in the query, or in the body itself.
	sign(req *Request, id string, now time.Time) error
	// limit is how far a signed time may be off; 0: no time is held to the clock.
	limit() time.Duration
}

// limit makes a clock a part of schemes.
func (c clock) limit() time.Duration { return c.tolerance }

// refuse returns an ErrSignature with its reason. The reason never holds what
// the request contained: it goes to logs.
func refuse(format string, args ...any) error {
	return fmt.Errorf("verify request: %w: %s", ErrSignature, fmt.Sprintf(format, args...))
}

// clock says how a scheme writes the time it signs.
type clock struct {
	// tolerance is how far it may be off, in either direction; 0: the provider
	// sets no limit, and none is held to, since repeats are harmless here.
	tolerance time.Duration
	// millis: also unix milliseconds; without it 13 digits are refused.
	millis bool
}

// check refuses a signed time further from now than the tolerance, in the past
// or in the future. stamp is unix time as the request has it.
func (c clock) check(stamp string, now time.Time, t *trace) error {
	whole, fraction := stamp, "0"
	if c.millis && len(stamp) == maxStamp+1 {
		whole, fraction = stamp[:maxStamp-2], stamp[maxStamp-2:]
	}
	seconds, ok := unixSeconds(whole)
	if _, digits := unixSeconds(fraction); !ok || !digits {
		t.noTime(stamp)
		if _, digits := unixSeconds(strings.TrimPrefix(stamp, "1")); digits && len(stamp) == maxStamp+1 {
			return refuse("the signed time is in milliseconds, and this provider writes seconds")
		}
		return refuse("the signed time is not in unix seconds")
	}
	return c.near(time.Unix(seconds, 0), now, t)
}

// near refuses a time further from now than the tolerance, by whole seconds.
func (c clock) near(at, now time.Time, t *trace) error {
	age := time.Duration(now.Unix()-at.Unix()) * time.Second
	far := c.tolerance != 0 && (age > c.tolerance || age < -c.tolerance)
	t.when(at, now, c.tolerance, !far)
	if far {
		return refuse("the signed time is %s away from this machine's clock; %s are allowed", age.Abs(), c.tolerance)
	}
	return nil
}

// unixSeconds reads digits alone: no sign, no space, no fraction.
func unixSeconds(stamp string) (int64, bool) {
	if stamp == "" || len(stamp) > maxStamp {
		return 0, false
	}
	var seconds int64
	for i := range len(stamp) {
		if stamp[i] < '0' || stamp[i] > '9' {
			return 0, false
		}
		seconds = seconds*10 + int64(stamp[i]-'0')
	}
	return seconds, true
}

// secrets returns the source's secrets, and faults where there are none, too
// many or a blank one: an empty key would let everybody sign.
func secrets(src config.Source, f *faults) []string {
	if len(src.Secrets) == 0 {
		f.add(src.Pos, "secrets", "at least one secret is needed, or every request would be refused")
	}
	return optionalSecrets(src, f)
}

// optionalSecrets is secrets for a source that can do without.
func optionalSecrets(src config.Source, f *faults) []string {
	if len(src.Secrets) > maxSecrets {
		f.add(src.Pos, "secrets", "%d secrets are too many; at most %d can be live", len(src.Secrets), maxSecrets)
	}
	var list []string
	for i, secret := range src.Secrets {
		value := secret.Reveal()
		if strings.TrimSpace(value) == "" {
			f.add(src.Pos, fmt.Sprintf("secrets[%d]", i), "is empty; is its environment variable set?")
			continue
		}
		list = append(list, value)
	}
	return list
}
