package operator

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/exit"
)

// CheckedConfig is a configuration without faults, in short.
type CheckedConfig struct {
	File     string          `json:"file"`
	Valid    bool            `json:"valid"`
	Sources  []CheckedSource `json:"sources"`
	Assets   int             `json:"assets"`
	Accounts int             `json:"accounts"`
	Faults   []CheckedFault  `json:"faults"`
}

// CheckedSource is one source of it.
type CheckedSource struct {
	Name      string `json:"name"`
	Provider  string `json:"provider"`
	Mode      string `json:"mode"`
	Secrets   int    `json:"secrets"`
	Rules     int    `json:"rules"`
	Transfers int    `json:"transfers"`
	Unmatched string `json:"unmatched"`
}

// CheckedFault is one fault; line and column are 0 where no place in the file
// is to blame.
type CheckedFault struct {
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Path    string `json:"path"`
	Message string `json:"message"`
}

// CheckConfig compiles the configuration at path and prints a summary, or
// returns every fault. It connects to nothing.
func CheckConfig(s *Session, path string) error {
	cat, err := s.checked(path, s.Env)
	if err != nil {
		return err
	}
	checked := summary(path, cat)
	if s.JSON {
		return s.object(checked)
	}
	t := newTable(s.Out, "SOURCE", "PROVIDER", "MODE", "SECRETS", "RULES", "TRANSFERS", "UNMATCHED")
	for _, src := range checked.Sources {
		t.row(src.Name, src.Provider, src.Mode, fmt.Sprint(src.Secrets), fmt.Sprint(src.Rules), fmt.Sprint(src.Transfers), src.Unmatched)
	}
	if err := t.flush(); err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "%s: no faults, %s, %s, %s\n", path,
		count(len(checked.Sources), "source"), count(checked.Assets, "declared asset"), count(checked.Accounts, "account limit"))
	return nil
}

// checked compiles the configuration at path, or returns every fault, printed
// where JSON is wanted.
func (s *Session) checked(path string, env func(string) (string, bool)) (*catalog.Catalog, error) {
	cat, err := catalog.Load(path, env)
	var faults config.Faults
	switch {
	case errors.As(err, &faults) && s.JSON:
		if err := s.object(faulty(path, faults)); err != nil {
			return nil, err
		}
		return nil, exit.With(exit.Usage, fmt.Errorf("%s: %s", path, count(len(faults), "fault")))
	case errors.As(err, &faults):
		return nil, fmt.Errorf("%w\n%s: %s", faults, path, count(len(faults), "fault"))
	case errors.Is(err, fs.ErrNotExist):
		return nil, exit.With(exit.Usage, err)
	}
	return cat, err
}

func faulty(path string, faults config.Faults) CheckedConfig {
	checked := CheckedConfig{File: path, Sources: []CheckedSource{}, Faults: make([]CheckedFault, len(faults))}
	for i, f := range faults {
		checked.Faults[i] = CheckedFault{Line: f.Pos.Line, Column: f.Pos.Column, Path: f.Path, Message: f.Message}
	}
	return checked
}

func summary(path string, cat *catalog.Catalog) CheckedConfig {
	checked := CheckedConfig{
		File: path, Valid: true, Faults: []CheckedFault{}, Sources: []CheckedSource{},
		Assets: len(cat.Config.Assets), Accounts: len(cat.Config.Accounts),
	}
	for _, name := range slices.Sorted(maps.Keys(cat.Sources)) {
		src := cat.Sources[name].Config
		transfers := 0
		for _, rule := range src.Rules {
			transfers += len(rule.Transfers)
		}
		checked.Sources = append(checked.Sources, CheckedSource{
			Name: name, Provider: src.Provider.Value, Mode: cmp.Or(src.Mode, "live"), Secrets: len(src.Secrets),
			Rules: len(src.Rules), Transfers: transfers, Unmatched: cmp.Or(src.Unmatched, "ignore"),
		})
	}
	return checked
}
