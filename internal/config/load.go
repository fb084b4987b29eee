// Package config reads onceledger.yaml and the environment.
//
// Every fault is found in one go and printed with its place:
//
//	cfg, err := config.Load(config.Path("", os.LookupEnv), os.LookupEnv)
//	// onceledger.yaml:12:14: sources.stripe.mode: "prod" is not one of live, test
//
// Unknown and repeated keys are faults, as are values outside their bounds. No
// secret is ever printed.
package config

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// DefaultPath is the file that is read where none is named.
const DefaultPath = "onceledger.yaml"

// maxFile bounds the configuration file in bytes.
const maxFile = 4 << 20

// Path returns the file to read: the one named by flag, else by the variable
// ONCELEDGER_CONFIG, else DefaultPath.
func Path(flag string, env func(string) (string, bool)) string {
	named, _ := env("ONCELEDGER_CONFIG")
	return cmp.Or(flag, named, DefaultPath)
}

// Load reads path and what the environment overrides; env is os.LookupEnv
// outside of tests. A set but empty variable counts as not set. An error that
// is Faults comes together with what could be read, so that a caller can look
// for more of them; the configuration may be used only without an error.
func Load(path string, env func(string) (string, bool)) (*Config, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	c, faults := decode(data, env)
	c.File = path
	return c, faults.In(path)
}

// FromEnv returns the defaults with what the environment says, for somebody who
// has no file.
func FromEnv(env func(string) (string, bool)) (*Config, error) {
	c, faults := decode([]byte("{}"), env)
	return c, faults.In("")
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s is larger than %s", path, formatSize(maxFile))
	}
	return data, nil
}

func decode(data []byte, env func(string) (string, bool)) (*Config, Faults) {
	c := defaults()
	r := &reader{env: env, anchors: map[string]ast.Node{}, places: map[string]Pos{}}
	schema := fileKeys(c)
	if root := r.parse(data); root != nil {
		r.object(value{node: root, at: startPos(root)}, schema)
	}
	r.override(schema)
	c.finish(r)
	c.places = r.places
	return c, r.faults
}

// override lets the environment win over the file.
func (r *reader) override(k keys) {
	for _, name := range slices.Sorted(maps.Keys(k)) {
		f := k[name]
		if s, ok := r.env(f.env); f.env != "" && ok && s != "" {
			f.override(r, s)
		}
		if f.under != nil && f.suffix == "" {
			r.override(f.under())
		}
	}
}

// finish looks at what distant keys say together and completes overrides.
func (c *Config) finish(r *reader) {
	if c.Alerts.URL.IsZero() != c.Alerts.Secret.IsZero() && len(r.faults) == 0 {
		r.fault(Pos{}, "alerts", "url and secret belong together; give both or neither")
	}
	codes := map[string]Pos{}
	for i, asset := range c.Assets {
		repeated(r, codes, asset.Code, fmt.Sprintf("assets[%d].code", i))
	}
	matches, filledIn := map[string]Pos{}, 0
	for i, account := range c.Accounts {
		path := fmt.Sprintf("accounts[%d]", i)
		repeated(r, matches, account.Match, path+".match")
		if (account.Limit == "") != (account.Policy == "") {
			r.fault(account.Match.Pos, path, "limit and policy belong together; give both or neither")
		}
		if strings.Contains(account.Match.Value, SourceMark) {
			filledIn += len(c.Sources)
		}
		if filledIn > maxAccounts {
			r.fault(account.Match.Pos, path+".match", "with the names of %d sources these are more than %d accounts", len(c.Sources), maxAccounts)
			break
		}
	}
	for i := range c.Sources {
		if b := c.Sources[i].Retry; b != nil {
			b.Attempts = cmp.Or(b.Attempts, c.Retry.Attempts)
			b.Age = cmp.Or(b.Age, c.Retry.Age)
			b.Base = cmp.Or(b.Base, c.Retry.Base)
			b.Cap = cmp.Or(b.Cap, c.Retry.Cap)
			if b.Base > b.Cap && c.Retry.Base <= c.Retry.Cap {
				r.fault(c.Sources[i].Pos, "sources."+c.Sources[i].Name.Value+".retry",
					"base %s exceeds cap %s", formatDuration(b.Base), formatDuration(b.Cap))
			}
		}
	}
}

func repeated(r *reader, seen map[string]Pos, t Text, path string) {
	if t.Value == "" {
		return
	}
	if first, ok := seen[t.Value]; ok {
		r.fault(t.Pos, path, "%q is repeated; it stands first in line %d", t.Value, first.Line)
		return
	}
	seen[t.Value] = t.Pos
}

// Place returns where the key at path stands in the file: the first character
// of a string, the key itself of anything else. Paths are those of Fault.
func (c *Config) Place(path string) (Pos, bool) {
	pos, ok := c.places[path]
	return pos, ok
}

// Connection is a setting that some programs need and others do not.
type Connection string

// The connections, named by the variables that set them.
const (
	NeedNATS     Connection = "NATS_URL"
	NeedDatabase Connection = "DATABASE_URL"
	NeedRedis    Connection = "REDIS_URL"
)

// Require returns Faults naming each of needs that neither the file nor the
// environment sets.
func (c *Config) Require(needs ...Connection) error {
	set := map[Connection]bool{
		NeedNATS:     c.NATS.URL != "",
		NeedDatabase: !c.Database.URL.IsZero(),
		NeedRedis:    !c.Redis.URL.IsZero(),
	}
	keys := map[Connection]string{NeedNATS: "nats.url", NeedDatabase: "database.url", NeedRedis: "redis.url"}
	var faults Faults
	for _, need := range needs {
		if !set[need] {
			faults = append(faults, Fault{Path: keys[need], Message: fmt.Sprintf("is missing; set it or the variable %s", need)})
		}
	}
	return faults.In(c.File)
}
