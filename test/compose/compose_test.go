// Package compose_test holds docker-compose.yml, the Dockerfile and the
// configuration of NATS against what the programs read. Images cannot be pulled
// everywhere, so nothing is started.
package compose_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/stream"
)

const root = "../../"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type composeFile struct {
	Services map[string]service
	Volumes  map[string]any
}

type service struct {
	Image         string
	ContainerName string `yaml:"container_name"`
	Command       []string
	Environment   map[string]string
	Ports         []string
	Volumes       []string
	DependsOn     map[string]struct{ Condition string } `yaml:"depends_on"`
	Healthcheck   struct{ Test []string }
	Restart       string
}

// programs are the services that run our image.
var programs = []string{"migrate", "receiver", "worker"}

func TestProgramsReadEveryVariableTheyAreGiven(t *testing.T) {
	t.Parallel()
	compose := load(t)
	for _, name := range programs {
		given := compose.Services[name].Environment
		asked := map[string]bool{}
		env := func(key string) (string, bool) {
			asked[key] = true
			value, ok := given[key]
			return value, ok
		}
		require.Equal(t, given["ONCELEDGER_CONFIG"], config.Path("", env))
		_, err := config.Load(root+"config/onceledger.example.yaml", env)
		require.NoError(t, err, "the example works with the variables of %s", name)
		for key := range given {
			require.True(t, asked[key], "%s is given %s, which nothing reads", name, key)
		}
	}
}

func TestAddressesMeetTheirServices(t *testing.T) {
	t.Parallel()
	compose := load(t)
	nats := natsOptions(t, compose)
	postgres := compose.Services["postgres"].Environment
	for _, name := range programs {
		cfg := programConfig(t, compose, name)

		broker := parse(t, cfg.NATS.URL)
		require.Equal(t, fmt.Sprintf("nats:%d", nats.Port), broker.Host)
		require.Equal(t, nats.Username, broker.User.Username())
		require.Equal(t, nats.Password, password(broker))
		require.Equal(t, fmt.Sprintf("http://nats:%d", nats.HTTPPort), cfg.NATS.MonitorURL)

		database := parse(t, cfg.Database.URL.Reveal())
		require.Equal(t, "postgres:5432", database.Host)
		require.Equal(t, postgres["POSTGRES_USER"], database.User.Username())
		require.Equal(t, postgres["POSTGRES_PASSWORD"], password(database))
		require.Equal(t, "/"+postgres["POSTGRES_DB"], database.Path)

		cache := parse(t, cfg.Redis.URL.Reveal())
		require.Equal(t, "redis:6379", cache.Host)
		require.Equal(t, argument(t, compose.Services["redis"].Command, "--requirepass"), password(cache))
	}
}

func TestPortsAreTheOnesTheProgramsListenAt(t *testing.T) {
	t.Parallel()
	compose := load(t)

	receiver := programConfig(t, compose, "receiver").Receiver
	require.Equal(t, []string{"127.0.0.1:8080:" + port(t, receiver.Listen)}, compose.Services["receiver"].Ports)
	require.Contains(t, compose.Services["receiver"].Healthcheck.Test, "http://127.0.0.1:"+port(t, receiver.Admin)+"/readyz")

	worker := programConfig(t, compose, "worker").Worker
	require.Contains(t, compose.Services["worker"].Healthcheck.Test, "http://127.0.0.1:"+port(t, worker.Admin)+"/readyz")
	require.Contains(t, compose.Services["nats"].Healthcheck.Test,
		fmt.Sprintf("http://127.0.0.1:%d/healthz", natsOptions(t, compose).HTTPPort))

	exposed := strings.Join(dockerfile(t, "EXPOSE"), " ")
	require.Equal(t, strings.Join([]string{port(t, receiver.Listen), port(t, receiver.Admin), port(t, worker.Admin)}, " "), exposed)
	for name, s := range compose.Services {
		if name != "receiver" {
			require.Empty(t, s.Ports, "only webhooks come from outside")
		}
	}
}

func TestWorkersCanBeScaled(t *testing.T) {
	t.Parallel()
	worker := load(t).Services["worker"]
	require.Empty(t, worker.ContainerName, "a name can be taken once")
	require.Empty(t, worker.Ports, "a port of the host can be taken once")
}

func TestProgramsWaitForWhatTheyNeed(t *testing.T) {
	t.Parallel()
	compose := load(t)
	needs := map[string][]string{
		"migrate":  {"postgres", "nats"},
		"receiver": {"migrate", "nats"},
		"worker":   {"migrate", "nats", "redis"},
	}
	for name, wanted := range needs {
		var found []string
		for other, on := range compose.Services[name].DependsOn {
			found = append(found, other)
			condition := "service_healthy"
			if other == "migrate" {
				condition = "service_completed_successfully"
			}
			require.Equal(t, condition, on.Condition, "%s waits for %s", name, other)
		}
		require.ElementsMatch(t, wanted, found)
	}
	for name, s := range compose.Services {
		if name == "migrate" {
			require.Equal(t, "no", s.Restart)
			continue
		}
		require.NotEmpty(t, s.Healthcheck.Test, name)
		require.Equal(t, "unless-stopped", s.Restart, name)
	}
}

func TestCommandsAreProgramsOfTheImage(t *testing.T) {
	t.Parallel()
	compose := load(t)
	built := strings.Join(dockerfile(t, "RUN"), "\n")
	for name, command := range map[string]string{
		"migrate": "onceledger migrate", "receiver": "onceledger-receiver", "worker": "onceledger-worker",
	} {
		require.Equal(t, command, strings.Join(compose.Services[name].Command, " "))
		folder := "./cmd/" + strings.TrimPrefix(compose.Services[name].Command[0], "onceledger-")
		require.Contains(t, built, "-o /out/"+compose.Services[name].Command[0]+" "+folder)
		require.FileExists(t, filepath.Join(root, folder, "main.go"))
	}
	require.Contains(t, dockerfile(t, "COPY"), "--from=build /out/ /usr/local/bin/")
}

func TestNATSKeepsWhatItAcknowledges(t *testing.T) {
	t.Parallel()
	compose := load(t)
	nats := natsOptions(t, compose)
	require.True(t, nats.JetStream)
	require.True(t, nats.SyncAlways)
	require.Contains(t, compose.Services["nats"].Volumes, "nats:"+nats.StoreDir)

	cfg := programConfig(t, compose, "worker")
	events, dlq := stream.Settings(cfg.NATS)
	require.Greater(t, nats.JetStreamMaxStore, events.MaxBytes+dlq.MaxBytes, "a full EVENTS leaves DLQ its room")
	require.GreaterOrEqual(t, int64(nats.MaxPayload), cfg.Receiver.MaxBody+1<<19, "a dead letter has room for headers")

	version := regexp.MustCompile(`^nats:(\d+\.\d+)\.\d+-alpine$`).FindStringSubmatch(compose.Services["nats"].Image)
	require.NotNil(t, version, "a full version, and wget for the health check")
	require.True(t, strings.HasPrefix(stream.MinVersion, version[1]+"."))
}

func TestPostgresKeepsWhatItCommits(t *testing.T) {
	t.Parallel()
	command := load(t).Services["postgres"].Command
	for _, setting := range []string{
		"fsync=on", "full_page_writes=on", "synchronous_commit=on",
		"shared_buffers=1GB", "max_wal_size=16GB", "checkpoint_timeout=30min", "wal_compression=lz4",
	} {
		require.Contains(t, command, setting)
	}
}

func TestRedisIsACache(t *testing.T) {
	t.Parallel()
	command := load(t).Services["redis"].Command
	require.Empty(t, argument(t, command, "--save"))
	require.Equal(t, "no", argument(t, command, "--appendonly"))
	require.Equal(t, "allkeys-lru", argument(t, command, "--maxmemory-policy"))
}

func TestMountsExist(t *testing.T) {
	t.Parallel()
	compose := load(t)
	for name, s := range compose.Services {
		for _, mount := range s.Volumes {
			source, _, _ := strings.Cut(mount, ":")
			if strings.HasPrefix(source, ".") {
				require.FileExists(t, filepath.Join(root, source))
			} else {
				require.Contains(t, compose.Volumes, source, name)
			}
		}
	}
}

func TestRequiredVariablesAreInTheExample(t *testing.T) {
	t.Parallel()
	example := read(t, "deploy/env.example")
	required := regexp.MustCompile(`\$\{(\w+):\?`).FindAllStringSubmatch(read(t, "docker-compose.yml"), -1)
	require.NotEmpty(t, required)
	for _, match := range required {
		require.Regexp(t, `(?m)^`+match[1]+`=$`, example)
	}
	for _, match := range regexp.MustCompile(`\$\{(\w+):-([^}]*)\}`).FindAllStringSubmatch(read(t, "docker-compose.yml"), -1) {
		require.Contains(t, example, "\n# "+match[1]+"="+match[2]+"\n")
	}
}

func TestImageIsStaticAndNotRoot(t *testing.T) {
	t.Parallel()
	stages := dockerfile(t, "FROM")
	require.Equal(t, "gcr.io/distroless/static-debian12:nonroot", stages[len(stages)-1])
	require.Contains(t, dockerfile(t, "ENV"), "CGO_ENABLED=0")
	require.Equal(t, []string{"65532:65532"}, dockerfile(t, "USER"))

	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, "go.mod"))
	require.Equal(t, "golang:"+version[1]+" AS build", stages[0])

	variable := regexp.MustCompile(`-X github.com/onceledger/onceledger/(internal/\w+)\.(\w+)=`).FindStringSubmatch(read(t, "Dockerfile"))
	sources, err := filepath.Glob(filepath.Join(root, variable[1], "*.go"))
	require.NoError(t, err)
	require.True(t, slices.ContainsFunc(sources, func(path string) bool {
		text, err := os.ReadFile(path)
		return err == nil && strings.Contains(string(text), "\nvar "+variable[2]+" string\n")
	}), "the linker sets a variable that exists")
}
