package body_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/body"
	"github.com/onceledger/onceledger/internal/jsondoc"
	"github.com/onceledger/onceledger/pkg/dlq"
)

// everything keeps a whole document.
var everything = jsondoc.NewPaths([]string{})

// vector is a body that a provider or its library published.
type vector struct {
	ID, Provider, PublicKey, Expected string
	Body                              []byte
	Signed                            []byte
}

func vectors(tb testing.TB) map[string]vector {
	data, err := os.ReadFile("testdata/bodies.json")
	require.NoError(tb, err)
	var list []struct {
		ID, Provider, PubKey, Expected string
		Body                           []byte `json:"body_b64"`
		Signed                         []byte `json:"signed_b64"`
	}
	require.NoError(tb, json.Unmarshal(data, &list))
	byID := make(map[string]vector)
	for _, v := range list {
		byID[v.ID] = vector{v.ID, v.Provider, v.PubKey, v.Expected, v.Body, v.Signed}
	}
	require.Len(tb, byID, 14)
	return byID
}

// lookup returns what stands at path, which has to be there.
func lookup(tb testing.TB, doc any, path ...string) any {
	value, ok := jsondoc.Lookup(doc, path...)
	require.True(tb, ok, "nothing at %q in %v", path, doc)
	return value
}

func decode64(tb testing.TB, text string) []byte {
	data, err := base64.StdEncoding.DecodeString(text)
	require.NoError(tb, err)
	return data
}

func TestReasonsOfErrors(t *testing.T) {
	for err, reason := range map[error]dlq.Reason{
		nil:                  "",
		body.ErrSyntax:       dlq.BadJSON,
		body.ErrLimit:        dlq.BadJSON,
		body.ErrAmbiguous:    dlq.AmbiguousJSON,
		body.ErrText:         dlq.UnstorableText,
		body.ErrDecrypt:      dlq.DecryptFailed,
		jsondoc.ErrSyntax:    dlq.BadJSON,
		jsondoc.ErrDepth:     dlq.BadJSON,
		jsondoc.ErrAmbiguous: dlq.AmbiguousJSON,
		errors.New("other"):  dlq.BadJSON,
	} {
		if err != nil {
			err = fmt.Errorf("read body: %w", err)
		}
		require.Equal(t, reason, body.Reason(err), "%v", err)
	}
}

// isSyntax reports whether err says that bytes have no reading, or two.
func isSyntax(err error) bool {
	return errors.Is(err, body.ErrSyntax) || errors.Is(err, body.ErrAmbiguous)
}
