package up

import (
	"cmp"
	"crypto/rand"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/devstack"
)

//go:embed starter.yaml
var starter string

// standardKey is the length in bytes of a Standard Webhooks key.
const standardKey = 24

// configuration returns the file to run with: the one that was named, else the
// data folder's own, which the first start writes with secrets made up for it.
func (o Options) configuration() (path string, own bool, err error) {
	named, _ := o.Env("ONCELEDGER_CONFIG")
	if path = cmp.Or(o.Config, named); path != "" {
		return path, false, nil
	}
	path = filepath.Join(o.Data, config.DefaultPath)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return path, true, err
	}
	if err := os.MkdirAll(o.Data, 0o755); err != nil { // as devstack makes it; the file itself is 0600
		return "", false, fmt.Errorf("make data folder: %w", err)
	}
	if err := devstack.Free(o.Data); err != nil { // it has a configuration elsewhere
		return "", false, inUse(err)
	}
	if err := os.WriteFile(path, []byte(newStarter()), 0o600); err != nil {
		return "", false, fmt.Errorf("write configuration: %w", err)
	}
	return path, true, nil
}

// newStarter is the starter configuration with new secrets.
func newStarter() string {
	key := make([]byte, standardKey)
	_, _ = rand.Read(key) // never fails
	return strings.NewReplacer(
		"{{stripe}}", "whsec_"+rand.Text(),
		"{{github}}", rand.Text(),
		"{{orders}}", "whsec_"+base64.StdEncoding.EncodeToString(key),
		"{{shop}}", rand.Text(),
	).Replace(starter)
}
