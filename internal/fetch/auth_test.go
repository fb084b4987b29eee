package fetch

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/config"
)

var playKey = func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
}()

func keyFile(t *testing.T) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(playKey)
	require.NoError(t, err)
	text, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "robot@p.iam.gserviceaccount.com", "private_key_id": "k1",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), "token_uri": "http://169.254.169.254/",
	})
	require.NoError(t, err)
	return string(text)
}

// Access is asked for with a signature, kept while it lasts, and asked for anew
// where it is taken back.
func TestAServiceAccount(t *testing.T) {
	t.Parallel()
	given, refuse := 0, false
	api := newStub(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			given++
			body, _ := io.ReadAll(r.Body)
			requireGrant(t, string(body))
			fmt.Fprintf(w, `{"access_token":"access-%d","expires_in":3599,"token_type":"Bearer"}`, given)
			return
		}
		if r.Header.Get("Authorization") != fmt.Sprint("Bearer access-", given) || refuse {
			refuse = false
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, `{"purchaseState":0,"orderId":"GPA.1"}`)
	})
	src := configured("google-play", api.URL)
	src.Fetch.Token = config.NewSecret(keyFile(t))
	c := newClient(t, src)
	ask := func() error {
		_, err := look(t, c, push(`{"packageName":"a.b","oneTimeProductNotification":{"purchaseToken":"t1","sku":"s"}}`))
		return err
	}
	require.NoError(t, ask())
	require.NoError(t, ask())
	require.Equal(t, 1, given)
	robot := c.auth.(*account)
	robot.now = func() time.Time { return time.Now().Add(3599*time.Second - renewAhead + time.Second) }
	require.NoError(t, ask())
	require.Equal(t, 2, given)
	refuse = true
	require.ErrorIs(t, ask(), ErrRefused)
	require.NoError(t, ask())
	require.Equal(t, 3, given)

	for status, want := range map[int]error{http.StatusBadRequest: ErrRefused, http.StatusInternalServerError: ErrUnavailable, http.StatusOK: ErrRefused} {
		api := newStub(t, says(status, `{"error":"invalid_grant"}`))
		src.Fetch.URL.Value = api.URL
		c := newClient(t, src)
		_, err := look(t, c, push(`{"packageName":"a.b","oneTimeProductNotification":{"purchaseToken":"t1","sku":"s"}}`))
		require.ErrorIs(t, err, want, status)
	}
	src.Fetch.URL.Value = ""
	require.Equal(t, googleToken, newClient(t, src).auth.(*account).url)
}

// requireGrant checks a request for access as Google does.
func requireGrant(t *testing.T, form string) {
	values := strings.Split(form, "&assertion=")
	if len(values) == 1 {
		values = strings.Split(strings.TrimPrefix(form, "assertion="), "&grant_type=")
		values[0], values[1] = values[1], values[0]
	}
	parts := strings.Split(values[1], ".")
	require.Len(t, parts, 3)
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	require.NoError(t, err)
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	require.NoError(t, rsa.VerifyPKCS1v15(&playKey.PublicKey, crypto.SHA256, sum[:], signature))
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	require.NoError(t, err)
	var claims map[string]any
	require.NoError(t, json.Unmarshal(raw, &claims))
	require.Equal(t, "robot@p.iam.gserviceaccount.com", claims["iss"])
	require.Equal(t, "https://oauth2.googleapis.com/token", claims["aud"])
	require.Equal(t, "https://www.googleapis.com/auth/androidpublisher", claims["scope"])
	require.InDelta(t, 600, claims["exp"].(float64)-claims["iat"].(float64), 0)
}
