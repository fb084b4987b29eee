package catalog_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/provider"
	"github.com/onceledger/onceledger/internal/provider/providertest"
	"github.com/onceledger/onceledger/internal/rules"
	"github.com/onceledger/onceledger/pkg/envelope"
	"github.com/onceledger/onceledger/pkg/ledger"
)

const (
	providersPage = "../../docs/providers.md"
	familyPages   = "../../docs/providers"
)

// block is a fenced block of a page. The words after its language say what it is:
//
//	yaml                a configuration that works as it stands
//	json, xml or form   a body that the first source signs
//	… posts=1999USD     what it posts, in minor units
//	… again             another event about what the block before posted
//	… nothing           an event that posts nothing
//	… fetched=TYPE      what the provider's API tells of a hint
//	… source=NAME       it is for this source
//	… X-Name=Value      the request has this header
type block struct {
	language string
	posts    string
	again    bool
	nothing  bool
	fetched  string
	source   string
	header   http.Header
	text     string
}

func blocksOf(page string) []block {
	var blocks []block
	inside := false
	for line := range strings.Lines(page) {
		fence, ok := strings.CutPrefix(line, "```")
		switch {
		case ok && inside:
			inside = false
			last := &blocks[len(blocks)-1]
			last.text = strings.TrimSuffix(last.text, "\n")
		case ok:
			inside = true
			words := strings.Fields(fence)
			b := block{language: words[0], header: http.Header{}}
			for _, word := range words[1:] {
				name, value, _ := strings.Cut(word, "=")
				switch name {
				case "posts":
					b.posts = value
				case "again":
					b.again = true
				case "nothing":
					b.nothing = true
				case "fetched":
					b.fetched = value
				case "source":
					b.source = value
				default:
					b.header.Set(name, value)
				}
			}
			blocks = append(blocks, b)
		case inside:
			blocks[len(blocks)-1].text += line
		}
	}
	return blocks
}

// Each provider has a page, whose configuration loads and whose examples decide
// as the page says.
func TestPagesOfProvidersWork(t *testing.T) {
	t.Parallel()
	overview, err := os.ReadFile(providersPage)
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(familyPages, "*.md"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	shown := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		name := filepath.Base(file)
		require.Contains(t, string(overview), "(providers/"+name+")", "docs/providers.md leads to it")
		page := blocksOf(string(text))
		for _, b := range page {
			if b.language != "yaml" {
				continue
			}
			for _, source := range loaded(t, b.text).Config.Sources {
				require.Empty(t, shown[source.Provider.Value], "%s and %s", source.Provider.Value, name)
				shown[source.Provider.Value] = name
			}
		}
		t.Run(name, func(t *testing.T) { tryPage(t, page) })
	}
	for _, name := range provider.Names() {
		require.NotEmpty(t, shown[name], "provider %s has no page", name)
	}
}

// tryPage holds the examples of a page to what it says of them. A source without
// an example is tried with the provider's sample.
func tryPage(t *testing.T, page []block) {
	at := slices.IndexFunc(page, func(b block) bool { return b.language == "yaml" })
	require.GreaterOrEqual(t, at, 0, "it has a configuration")
	cat := loaded(t, page[at].text)
	first := cat.Config.Sources[0].Name.Value
	posted, tried := map[string]bool{}, map[string]bool{}
	var before []ledger.Transfer
	for _, b := range page {
		if !slices.Contains([]string{"json", "xml", "form"}, b.language) {
			continue
		}
		if b.source == "" {
			b.source = first
		}
		source := cat.Sources[b.source]
		require.NotNil(t, source, b.source)
		decision := decide(t, source, b)
		require.NoError(t, decision.Err, b.text)
		tried[b.source] = true
		switch {
		case b.nothing:
			require.Empty(t, decision.Transfers, b.text)
			continue
		case b.again:
			require.Equal(t, before, decision.Transfers, b.text)
		default:
			require.Equal(t, b.posts, amountsOf(decision), b.text)
		}
		require.NotEmpty(t, decision.Transfers, "it posts: %s", b.text)
		posted[b.source], before = true, decision.Transfers
	}
	for name, source := range cat.Sources {
		if movesMoney(source) && !source.Hint() { // send's own event is not parked
			decision := decide(t, source, block{header: http.Header{}, text: string(source.Sample("1"))})
			require.NoError(t, decision.Err, name)
			posted[name] = posted[name] || !tried[name] && len(decision.Transfers) > 0
		}
		require.Equal(t, movesMoney(source), posted[name], "%s: its rules are tried", name)
	}
}

func movesMoney(source *catalog.Source) bool {
	return slices.ContainsFunc(source.Config.Rules, func(r config.Rule) bool { return len(r.Transfers) > 0 })
}

// amountsOf is what a decision posts, as pages write it.
func amountsOf(d rules.Decision) string {
	var amounts []string
	for _, t := range d.Transfers {
		amounts = append(amounts, fmt.Sprintf("%d%s", t.Amount, t.Asset))
	}
	return strings.Join(amounts, ",")
}

// decide sends a block to its source, signed as the provider would, and lets the
// rules of the page decide it.
func decide(t *testing.T, source *catalog.Source, b block) rules.Decision {
	t.Helper()
	now := time.Now()
	if b.fetched != "" {
		hint := &envelope.Event{Source: source.Config.Name.Value, ID: envelope.GeneratedID(), Mode: "live", Time: now}
		return source.Rules.Decide(source.LookedUp(hint, envelope.Event{ID: "1", Type: b.fetched, Data: []byte(b.text)}))
	}
	sender := sender(t, source.Config)
	id := "evt_1"
	if b.again {
		id = "evt_2" // or the event's own id could pass for the payment's
	}
	request, err := sender.Sign([]byte(b.text), id, now)
	require.NoError(t, err)
	for name, values := range b.header {
		request.Header[name] = values
	}
	require.NoError(t, sender.Verify(t.Context(), request, now))
	events := sender.Events(request, now)
	require.Len(t, events, 1)
	require.Empty(t, events[0].Fault, b.text)
	return source.Rules.Decide(events[0])
}

// sender is the source with keys of the provider's that can sign.
func sender(t *testing.T, src config.Source) *provider.Source {
	t.Helper()
	s, faults := provider.New(providertest.Signing(t, src))
	require.Empty(t, faults)
	return s
}

// variable is a reference to the environment.
var variable = regexp.MustCompile(`\$\{(\w+)\}`)

// loaded is the configuration of a page, whose variables hold secrets of the
// right form.
func loaded(t *testing.T, yaml string) *catalog.Catalog {
	t.Helper()
	var pairs []string
	for _, found := range variable.FindAllStringSubmatch(yaml, -1) {
		pairs = append(pairs, found[1], providertest.Secret(t, found[1]))
	}
	path := filepath.Join(t.TempDir(), "onceledger.yaml")
	require.NoError(t, os.WriteFile(path, []byte(yaml), 0o600))
	cat, err := catalog.Load(path, env(pairs...))
	require.NoError(t, err)
	return cat
}
