package body

import (
	"crypto"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/onceledger/onceledger/internal/jsondoc"
)

// MaxTokenAge is the longest a token may be valid: Google's, and those of OIDC
// providers at large, live one hour. One that says more is refused.
const MaxTokenAge = 24 * time.Hour

// ErrNoKey is what a Keys function returns for a key that there is not, as
// opposed to one that could not be fetched.
var ErrNoKey = errors.New("no such key")

// Bearer says which JWTs are accepted as proof of who sends a request, such as
// Google's OIDC tokens on Pub/Sub pushes.
type Bearer struct {
	// Keys returns the key with an id, which anybody may have sent: it must not
	// fetch anew for each unknown one. ErrNoKey makes the token invalid; any other
	// error is passed on, and is no fault of the token's.
	Keys func(keyID string) (crypto.PublicKey, error)
	// Algorithm is the one that tokens are signed with.
	Algorithm Algorithm
	// Issuers are the values of iss that are accepted. Google has two:
	// "https://accounts.google.com" and "accounts.google.com".
	Issuers []string
	// Audience is the value that aud must be, or hold.
	Audience string
	// Email, where it is not empty, is the verified e-mail address the token must
	// be about: Pub/Sub's service account, since anybody can get a token of
	// Google's for any audience.
	Email string
	// Tolerance is how far the clocks may differ, in both directions.
	Tolerance time.Duration
}

// Verify checks a JWT: signature, issuer, audience, e-mail, and that now is
// between iat (and nbf) and exp, which have to be there, and whole seconds.
// It returns the claims as jsondoc.Scan reads them.
//
// Errors wrap ErrToken if the token is at fault, and do not if a key could not
// be had: then the answer is 503, not 401.
func (b Bearer) Verify(text string, now time.Time) (map[string]any, error) {
	t, err := ParseToken(text)
	if err != nil {
		return nil, err
	}
	if t.algorithm != b.Algorithm { // before a key is fetched for it
		return nil, fmt.Errorf("%w: its algorithm is %q, not %q", ErrToken, clip(string(t.algorithm)), b.Algorithm)
	}
	key, err := b.Keys(t.KeyID)
	if errors.Is(err, ErrNoKey) {
		return nil, fmt.Errorf("%w: key %q: %w", ErrToken, clip(t.KeyID), err)
	}
	if err != nil {
		return nil, fmt.Errorf("find key %q: %w", clip(t.KeyID), err)
	}
	payload, err := t.Verify(key, b.Algorithm)
	if err != nil {
		return nil, err
	}
	doc, err := jsondoc.Scan(payload, wholeDocument)
	if err != nil {
		return nil, fmt.Errorf("%w: claims: %w", ErrToken, err)
	}
	claims, _ := doc.(map[string]any)
	if err := b.check(claims, now); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrToken, err)
	}
	return claims, nil
}

// wholeDocument keeps everything.
var wholeDocument = jsondoc.NewPaths([]string{})

func (b Bearer) check(claims map[string]any, now time.Time) error {
	issuer, _ := claims["iss"].(string)
	switch {
	case issuer == "" || !slices.Contains(b.Issuers, issuer):
		return fmt.Errorf("issuer %q is not one of %q", clip(issuer), b.Issuers)
	case b.Audience == "" || !names(claims["aud"], b.Audience):
		return fmt.Errorf("audience is not %q", b.Audience)
	case b.Email != "" && (claims["email"] != b.Email || claims["email_verified"] != true):
		return fmt.Errorf("it is not about %q, or that is not verified", b.Email)
	}
	issued, okIssued := instant(claims["iat"])
	expires, okExpires := instant(claims["exp"])
	before, found := claims["nbf"]
	notBefore, okBefore := instant(before)
	switch {
	case !okIssued || !okExpires || found && !okBefore:
		return errors.New("iat, exp or nbf is missing, or no time in seconds")
	case expires.Sub(issued) > MaxTokenAge:
		return fmt.Errorf("it is valid for %v, longer than %v", expires.Sub(issued), MaxTokenAge)
	case !now.Before(expires.Add(b.Tolerance)):
		return fmt.Errorf("it expired at %v", expires)
	case issued.After(now.Add(b.Tolerance)):
		return fmt.Errorf("it is issued at %v, which is in the future", issued)
	case found && notBefore.After(now.Add(b.Tolerance)):
		return fmt.Errorf("it is not valid before %v", notBefore)
	}
	return nil
}

// names reports whether value is name, or a list that holds it.
func names(value any, name string) bool {
	list, ok := value.([]any)
	return value == any(name) || ok && slices.Contains(list, any(name))
}

// instant reads seconds since 1970, up to the year 9999.
func instant(value any) (time.Time, bool) {
	const last = 253402300799
	seconds, ok := value.(int64)
	if !ok || seconds < 0 || seconds > last {
		return time.Time{}, false
	}
	return time.Unix(seconds, 0).UTC(), true
}
