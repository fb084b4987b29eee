// Package recipes holds the configurations of examples/recipes to a scenario
// each: what the provider tells of some payments, in any order, repeated, and in
// batches of any size, always comes to the same balances and the same dead
// letters, in a real Postgres.
package recipes

import (
	"flag"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/onceledger/onceledger/internal/devstack"
	"github.com/onceledger/onceledger/internal/devstack/stacktest"
	"github.com/onceledger/onceledger/internal/postgres"
	"github.com/onceledger/onceledger/internal/postgres/pgtest"
)

const (
	recipesDir   = "../../examples/recipes"
	scenariosDir = "testdata"
	overview     = "../../docs/recipes.md"
)

// orders is how many orders of a scenario are tried, unless -rapid.checks says
// otherwise: each is some ten transactions.
const orders = "25"

var stack *devstack.Stack

func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", orders); err != nil { // a flag of the command line comes after
		panic(err)
	}
	stacktest.Main(m, &stack, devstack.Postgres)
}

func TestEveryOrderComesToTheSame(t *testing.T) {
	t.Parallel()
	for _, name := range names(t, recipesDir, ".yaml") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cat := load(t, name)
			s := read(t, name)
			told := s.told(t, cat)
			l := &ledgerRun{pool: pgtest.Pool(t, stack.DatabaseURL, postgres.Worker), cat: cat}
			rapid.Check(t, func(rt *rapid.T) {
				got := l.run(rt, told)
				require.Equal(rt, s.Parked, got.parked)
				require.Equal(rt, s.Balances, got.balances)
				require.Equal(rt, s.Held, got.held)
			})
		})
	}
}

// Each recipe has a scenario and a line in the overview, and the reverse.
func TestNothingIsLeftOver(t *testing.T) {
	t.Parallel()
	recipes := names(t, recipesDir, ".yaml")
	require.NotEmpty(t, recipes)
	require.Equal(t, recipes, names(t, scenariosDir, ".json"))
	text := file(t, overview)
	for _, name := range recipes {
		require.Contains(t, text, "(../examples/recipes/"+name+".yaml)")
	}
	require.Equal(t, len(recipes), strings.Count(text, "(../examples/recipes/"))
}

// names are the files of a folder with an ending, without it.
func names(t *testing.T, dir, ending string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"+ending))
	require.NoError(t, err)
	for i, file := range files {
		files[i] = strings.TrimSuffix(filepath.Base(file), ending)
	}
	return files
}
