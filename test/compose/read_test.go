package compose_test

import (
	"net"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/config"
)

// load reads docker-compose.yml as compose does, with every required variable
// set to "test-" and its name, and every optional one left to its default.
func load(t *testing.T) composeFile {
	t.Helper()
	reference := regexp.MustCompile(`\$\{(\w+):([?-])([^}]*)\}`)
	text := reference.ReplaceAllStringFunc(read(t, "docker-compose.yml"), func(match string) string {
		parts := reference.FindStringSubmatch(match)
		if parts[2] == "-" {
			return parts[3]
		}
		return "test-" + parts[1]
	})
	require.NotContains(t, text, "${", "every reference is ${NAME:?message} or ${NAME:-default}")
	var compose composeFile
	require.NoError(t, yaml.Unmarshal([]byte(text), &compose))
	return compose
}

// programConfig is what a program of the image makes of its environment and
// the mounted example.
func programConfig(t *testing.T, compose composeFile, name string) *config.Config {
	t.Helper()
	environment := compose.Services[name].Environment
	cfg, err := config.Load(root+"config/onceledger.example.yaml", func(key string) (string, bool) {
		value, ok := environment[key]
		return value, ok
	})
	require.NoError(t, err)
	return cfg
}

// natsOptions has the server itself read its configuration.
func natsOptions(t *testing.T, compose composeFile) *server.Options {
	t.Helper()
	nats := compose.Services["nats"]
	require.Contains(t, nats.Volumes, "./deploy/nats.conf:"+argument(t, nats.Command, "--config")+":ro")
	text := strings.ReplaceAll(read(t, "deploy/nats.conf"), "$NATS_PASSWORD", nats.Environment["NATS_PASSWORD"])
	conf := t.TempDir() + "/nats.conf"
	require.NoError(t, os.WriteFile(conf, []byte(text), 0o600))
	options, err := server.ProcessConfigFile(conf)
	require.NoError(t, err)
	return options
}

// dockerfile returns the arguments of an instruction, one entry each time it occurs.
func dockerfile(t *testing.T, instruction string) []string {
	t.Helper()
	text := strings.ReplaceAll(read(t, "Dockerfile"), "\\\n", "")
	var found []string
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, instruction+" "); ok {
			found = append(found, strings.TrimSpace(rest))
		}
	}
	require.NotEmpty(t, found, instruction)
	return found
}

// argument returns what follows flag in a command.
func argument(t *testing.T, command []string, flag string) string {
	t.Helper()
	for i, word := range command[:len(command)-1] {
		if word == flag {
			return command[i+1]
		}
	}
	require.Fail(t, "no such argument", flag)
	return ""
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(root + path)
	require.NoError(t, err)
	return string(text)
}

func parse(t *testing.T, raw string) *url.URL {
	t.Helper()
	u, err := url.Parse(raw)
	require.NoError(t, err)
	return u
}

func password(u *url.URL) string {
	p, _ := u.User.Password()
	return p
}

func port(t *testing.T, address string) string {
	t.Helper()
	_, p, err := net.SplitHostPort(address)
	require.NoError(t, err)
	return p
}
