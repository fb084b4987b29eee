package fetch

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/onceledger/onceledger/internal/config"
)

// authorizer puts into a request what lets it in.
type authorizer interface {
	// authorize errors: ErrRefused, ErrUnavailable.
	authorize(ctx context.Context, request *http.Request) error
	// refused is told that it did not let the request in.
	refused()
}

// fixed is one header that stays as it is.
type fixed string

func (f fixed) authorize(_ context.Context, request *http.Request) error {
	request.Header.Set("Authorization", string(f))
	return nil
}

func (fixed) refused() {}

func bearer(token string, _ *Client) (authorizer, error) {
	if strings.ContainsAny(token, " \r\n") {
		return nil, errors.New("is no API key: it holds white space")
	}
	return fixed("Bearer " + token), nil
}

// basic is HTTP's basic authentication with the token as the user.
func basic(token string, _ *Client) (authorizer, error) {
	if strings.ContainsAny(token, ": \r\n") {
		return nil, errors.New("is no API key: it holds a colon or white space")
	}
	return fixed("Basic " + base64.StdEncoding.EncodeToString([]byte(token+":"))), nil
}

const (
	// googleToken is where Google gives access for a service account's signature.
	googleToken = "https://oauth2.googleapis.com/token"
	googleScope = "https://www.googleapis.com/auth/androidpublisher"
	googleGrant = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	// grantAge is how old a signed request for access may get, and renewAhead how
	// long before its end access is asked for anew.
	grantAge   = 10 * time.Minute
	renewAhead = time.Minute
)

// account is a service account of Google, which signs for access that lasts an
// hour.
type account struct {
	client *Client
	url    string // where access is given
	email  string
	keyID  string
	key    *rsa.PrivateKey
	now    func() time.Time

	mu     sync.Mutex // held while access is asked for: nobody can go on without
	header string
	end    time.Time
}

// serviceAccount reads the JSON key file of a service account.
func serviceAccount(text string, c *Client) (authorizer, error) {
	var file struct {
		Type       string `json:"type"`
		Email      string `json:"client_email"`
		KeyID      string `json:"private_key_id"`
		PrivateKey string `json:"private_key"`
	}
	if err := json.Unmarshal([]byte(text), &file); err != nil || file.Type != "service_account" || file.Email == "" {
		return nil, errors.New("is not the JSON key of a service account, with its type, client_email and private_key")
	}
	block, _ := pem.Decode([]byte(file.PrivateKey))
	if block == nil {
		return nil, errors.New("holds no private_key in PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, ok := parsed.(*rsa.PrivateKey)
	if err != nil || !ok {
		return nil, errors.New("holds no RSA private_key in PKCS #8")
	}
	a := &account{client: c, url: googleToken, email: file.Email, keyID: file.KeyID, key: key, now: time.Now}
	if target, err := url.Parse(c.base); err == nil && config.Loopback(target.Hostname()) {
		a.url = c.base + "/token" // a stub of the API stands for all of it
	}
	return a, nil
}

func (a *account) authorize(ctx context.Context, request *http.Request) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.header == "" || a.now().After(a.end.Add(-renewAhead)) {
		if err := a.renew(ctx); err != nil {
			return fmt.Errorf("ask for access: %w", err)
		}
	}
	request.Header.Set("Authorization", a.header)
	return nil
}

func (a *account) refused() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.header = ""
}

// renew asks for access; the caller holds mu.
func (a *account) renew(ctx context.Context) error {
	assertion, err := a.sign()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	form := url.Values{"grant_type": {googleGrant}, "assertion": {assertion}}.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url, bytes.NewReader([]byte(form)))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := a.client.do(request)
	if err != nil {
		return err
	}
	if err := judge(answer.Status); err != nil {
		return err
	}
	var given struct {
		Token   string `json:"access_token"`
		Seconds int64  `json:"expires_in"`
	}
	if err := json.Unmarshal(answer.Body, &given); err != nil || given.Token == "" || strings.ContainsAny(given.Token, " \r\n") {
		return fmt.Errorf("%w: the answer holds no access_token", ErrRefused)
	}
	a.header, a.end = "Bearer "+given.Token, a.now().Add(time.Duration(min(max(given.Seconds, 0), 24*3600))*time.Second)
	return nil
}

// sign returns a JWT that says who asks for what.
func (a *account) sign() (string, error) {
	header, _ := json.Marshal(map[string]string{"alg": "RS256", "typ": "JWT", "kid": a.keyID}) // texts are always JSON
	claims, _ := json.Marshal(map[string]any{
		"iss": a.email, "scope": googleScope, "aud": googleToken,
		"iat": a.now().Unix(), "exp": a.now().Add(grantAge).Unix(),
	})
	text := base64.RawURLEncoding.EncodeToString(header) + "." + base64.RawURLEncoding.EncodeToString(claims)
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, a.key, crypto.SHA256, sum[:])
	if err != nil {
		return "", fmt.Errorf("sign: %w", err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}
