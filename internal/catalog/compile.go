package catalog

import (
	"slices"
	"strings"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/provider"
	"github.com/onceledger/onceledger/internal/rules"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// compile makes src ready to run and returns the faults that are not among
// known: those of the file itself.
func compile(src config.Source, assets *ledger.Assets, known config.Faults) (*Source, config.Faults) {
	source := &Source{Config: src}
	var faults config.Faults
	preset := rules.Preset{Name: src.Provider.Value}
	if !settingsAtFault(src, known) {
		var found []config.Fault
		source.Source, found = provider.New(src)
		faults = append(faults, found...)
		if len(found) == 0 {
			preset.FingerprintPaths = source.FingerprintPaths()
			preset.LowerCurrency = source.LowerCurrency()
			preset.Decimals = source.Decimals()
			preset.HasMode = source.HasMode()
			preset.View = source.View
		}
	}
	var found []config.Fault
	source.Rules, found = rules.Compile(filled(src), preset, assets)
	return source, append(faults, found...)
}

// placed moves a fault that has no better place than its whole source to the
// key it names, where the file has one.
func placed(cfg *config.Config, src config.Source, faults config.Faults) config.Faults {
	for i, f := range faults {
		if pos, ok := cfg.Place(f.Path); ok && f.Pos == src.Pos {
			faults[i].Pos = pos
		}
	}
	return faults
}

// settingsAtFault reports whether a source has faults outside of its rules. What
// the provider would say of it then is mostly what follows from them.
func settingsAtFault(src config.Source, known config.Faults) bool {
	path := "sources." + src.Name.Value
	return slices.ContainsFunc(known, func(f config.Fault) bool {
		rest, mine := strings.CutPrefix(f.Path, path)
		return mine && (rest == "" || rest[0] == '.') && !strings.HasPrefix(rest, ".rules")
	})
}

// filled puts harmless expressions where one is missing, which is reported
// already, so that those beside it are still checked.
func filled(src config.Source) config.Source {
	fill := func(t *config.Text, expression string) {
		if t.Value == "" {
			t.Value = expression
		}
	}
	src.Rules = slices.Clone(src.Rules)
	for i := range src.Rules {
		rule := &src.Rules[i]
		fill(&rule.When, "false")
		rule.Transfers = slices.Clone(rule.Transfers)
		for j := range rule.Transfers {
			transfer := &rule.Transfers[j]
			fill(&transfer.Operation, `op("none", "none")`)
			if transfer.Voids.Value != "" {
				continue // it has nothing else
			}
			fill(&transfer.Debit, `"debit"`)
			fill(&transfer.Credit, `"credit"`)
			fill(&transfer.Amount, "1")
			fill(&transfer.Asset, `"EUR"`)
		}
	}
	return src
}
