package recipes

import (
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/provider"
	"github.com/onceledger/onceledger/internal/provider/providertest"
)

// senders are the sources of a recipe, with keys that can sign.
type senders map[string]*provider.Source

func newSenders(t *testing.T, cat *catalog.Catalog) senders {
	t.Helper()
	s := senders{}
	for name, source := range cat.Sources {
		made, faults := provider.New(providertest.Signing(t, source.Config))
		require.Empty(t, faults)
		s[name] = made
	}
	return s
}

// variable is a reference to the environment.
var variable = regexp.MustCompile(`\$\{(\w+)\}`)

// load reads a recipe as it stands, with secrets of the right form in the
// environment.
func load(t *testing.T, name string) *catalog.Catalog {
	t.Helper()
	path := filepath.Join(recipesDir, name+".yaml")
	env := map[string]string{}
	for _, found := range variable.FindAllStringSubmatch(file(t, path), -1) {
		env[found[1]] = providertest.Secret(t, found[1])
	}
	cat, err := catalog.Load(path, func(name string) (string, bool) { value, ok := env[name]; return value, ok })
	require.NoError(t, err)
	return cat
}
