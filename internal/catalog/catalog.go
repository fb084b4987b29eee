// Package catalog is the configuration made ready to run: every source with its
// provider and its compiled rules, every asset and account rule.
//
// It guarantees that what loads can run: each secret is there, each expression
// compiles, each name is known. Whatever is wrong is reported at once, each
// fault with its place in the file:
//
//	cat, err := catalog.Load(config.Path("", os.LookupEnv), os.LookupEnv)
//	source, ok := cat.Sources["stripe"]
//	err = source.Verify(ctx, request, time.Now())
//	decision := source.Rules.Decide(source.Events(request, time.Now())[0])
package catalog

import (
	"errors"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/fetch"
	"github.com/onceledger/onceledger/internal/provider"
	"github.com/onceledger/onceledger/internal/rules"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// Catalog is a whole configuration, checked and compiled. It is not changed
// after Load and safe for concurrent use.
type Catalog struct {
	Config *config.Config
	// Assets knows ISO 4217 and what the file declares.
	Assets *ledger.Assets
	// Sources are found by their names.
	Sources map[string]*Source
	// Accounts are found by their names.
	*Accounts
}

// Source is one webhook endpoint: its provider's Verify, Events, Ack and the
// like, and the rules that make transfers of its events.
type Source struct {
	*provider.Source
	Config config.Source
	Rules  *rules.Set
	// Retry is the source's own budget, or else the global one.
	Retry config.Retry
	// Fetch asks the provider's API for what a notice only hints at; nil: nobody does.
	Fetch *fetch.Client
}

// Load reads and compiles the file at path; env is os.LookupEnv outside of
// tests. All faults of the file are one error, a config.Faults.
func Load(path string, env func(string) (string, bool)) (*Catalog, error) {
	cfg, err := config.Load(path, env)
	var faults config.Faults
	if err != nil && !errors.As(err, &faults) {
		return nil, err
	}
	c := &Catalog{
		Config:   cfg,
		Assets:   assets(cfg.Assets),
		Sources:  make(map[string]*Source, len(cfg.Sources)),
		Accounts: NewAccounts(cfg),
	}
	faults = append(faults, unknownAssets(cfg, c.Assets)...)
	for _, src := range cfg.Sources {
		source, found := compile(src, c.Assets, faults)
		if src.Fetch != nil && !settingsAtFault(src, faults) {
			client, wrong := fetch.New(src, cfg.Receiver.MaxBody)
			source.Fetch, found = client, append(found, wrong...)
		}
		faults = append(faults, placed(cfg, src, found)...)
		source.Retry = cfg.Retry
		if src.Retry != nil {
			source.Retry = *src.Retry
		}
		c.Sources[src.Name.Value] = source
	}
	if len(faults) > 0 {
		return nil, faults.In(path)
	}
	return c, nil
}

// assets returns ISO 4217 and those of the declarations that are sound; the
// others have their faults already.
func assets(declared []config.Asset) *ledger.Assets {
	var sound []ledger.Asset
	seen := map[string]bool{}
	for _, a := range declared {
		asset := ledger.Asset{Code: a.Code.Value, Exponent: a.Exponent}
		if asset.Validate() == nil && !seen[asset.Code] {
			seen[asset.Code] = true
			sound = append(sound, asset)
		}
	}
	known, err := ledger.NewAssets(sound)
	if err != nil {
		panic(err) // Each was validated above, and none is there twice.
	}
	return known
}
