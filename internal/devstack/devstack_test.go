package devstack_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/devstack"
)

// shared is the stack of the tests that leave its services as they were.
var shared *devstack.Stack

func TestServicesAnswer(t *testing.T) {
	t.Parallel()
	require.Equal(t, "on", setting(t, shared, "fsync"))
	require.Equal(t, "on", setting(t, shared, "full_page_writes"))
	require.Equal(t, "128MB", setting(t, shared, "shared_buffers"))
	require.Equal(t, "30min", setting(t, shared, "checkpoint_timeout"))
	require.Equal(t, "127.0.0.1", setting(t, shared, "listen_addresses"))

	server := connectNATS(t, shared)
	require.True(t, server.AuthRequired())
	require.EqualValues(t, 2<<20, server.MaxPayload())

	info, err := connectRedis(t, shared).ConfigGet(t.Context(), "maxmemory-policy").Result()
	require.NoError(t, err)
	require.Equal(t, "allkeys-lru", info["maxmemory-policy"])
}

func TestNATSSyncsAlways(t *testing.T) {
	t.Parallel()
	response, err := http.Get(shared.NATSMonitorURL + "/jsz?config=true")
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Contains(t, string(body), `"sync_always": true`)
}

func TestStrangersAreRefused(t *testing.T) {
	t.Parallel()
	strip := func(raw string) string {
		u, err := url.Parse(raw)
		require.NoError(t, err)
		u.User = nil
		return u.String()
	}
	_, err := nats.Connect(strip(shared.NATSURL))
	require.ErrorIs(t, err, nats.ErrAuthorization)

	_, err = pgx.Connect(t.Context(), strip(shared.DatabaseURL)+"&user=onceledger&password=wrong")
	require.ErrorContains(t, err, "28P01")

	options, err := redis.ParseURL(strip(shared.RedisURL))
	require.NoError(t, err)
	client := redis.NewClient(options)
	defer client.Close()
	require.ErrorContains(t, client.Ping(t.Context()).Err(), "NOAUTH")
}

func TestAddressFile(t *testing.T) {
	t.Parallel()
	read, err := devstack.ReadAddresses(shared.Dir())
	require.NoError(t, err)
	require.Equal(t, shared.NATSURL, read.NATSURL)
	require.Equal(t, shared.DatabaseURL, read.DatabaseURL)

	info, err := os.Stat(filepath.Join(shared.Dir(), "stack.json"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	_, err = devstack.ReadAddresses(t.TempDir())
	require.ErrorContains(t, err, "no stack runs there")
}

func TestSecondStackInOneFolderIsRefused(t *testing.T) {
	t.Parallel()
	_, err := devstack.Start(t.Context(), devstack.Options{Dir: shared.Dir(), Small: true})
	require.ErrorIs(t, err, devstack.ErrInUse)
	require.ErrorContains(t, err, shared.Dir())

	require.Equal(t, "on", setting(t, shared, "fsync"), "the first one goes on")
}

func TestStopKeepsDataAndAddresses(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	first := start(t, devstack.Options{Dir: dir, Small: true})
	write(t, first)
	require.NoError(t, first.Stop(t.Context()))
	require.NoFileExists(t, filepath.Join(dir, "stack.json"))
	requireGone(t, first)

	second := start(t, devstack.Options{Dir: dir, Small: true})
	require.Equal(t, first.Addresses, second.Addresses)
	requireWritten(t, second)
}

func TestKilledServicesComeBackWithTheirData(t *testing.T) {
	t.Parallel()
	stack := start(t, devstack.Options{Small: true})
	write(t, stack)
	for _, service := range []*devstack.Service{stack.NATS, stack.Postgres, stack.Redis} {
		require.NoError(t, service.Kill())
		<-service.Process().Done()
		require.NoError(t, service.Start(t.Context()))
		require.ErrorContains(t, service.Start(t.Context()), "it is running")
	}
	requireWritten(t, stack)
}

func TestKillEndsBusySessionsToo(t *testing.T) {
	t.Parallel()
	stack := start(t, devstack.Options{Small: true, Only: []devstack.Kind{devstack.Postgres}})
	busy, watcher := connectPostgres(t, stack), connectPostgres(t, stack)

	ended := make(chan error, 1)
	go func() {
		// Such a session does not notice by itself that its server is gone.
		_, err := busy.Exec(context.Background(), `DO $$ BEGIN LOOP END LOOP; END $$`)
		ended <- err
	}()
	require.Eventually(t, func() bool {
		var state string
		err := watcher.QueryRow(t.Context(), `SELECT state FROM pg_stat_activity WHERE pid = $1`, busy.PgConn().PID()).Scan(&state)
		return err == nil && state == "active"
	}, 20*time.Second, 5*time.Millisecond)

	require.NoError(t, stack.Postgres.Kill())
	require.Error(t, <-ended)
	require.NoError(t, stack.Postgres.Start(t.Context()))
}

func TestPausedServiceIsSilentUntilResumed(t *testing.T) {
	t.Parallel()
	stack := start(t, devstack.Options{Small: true, Only: []devstack.Kind{devstack.Postgres}})
	conn := connectPostgres(t, stack)
	require.NoError(t, stack.Postgres.Pause())

	answered := make(chan error, 1)
	go func() {
		_, err := conn.Exec(context.Background(), `SELECT 1`)
		answered <- err
	}()
	select {
	case err := <-answered:
		require.Fail(t, "a paused server answered", "%v", err)
	case <-time.After(200 * time.Millisecond):
	}
	require.NoError(t, stack.Postgres.Resume())
	require.NoError(t, <-answered)
}

func TestPausedServiceCanBeStopped(t *testing.T) {
	t.Parallel()
	stack := start(t, devstack.Options{Small: true, Only: []devstack.Kind{devstack.Redis}})
	require.NoError(t, stack.Redis.Pause())
	require.NoError(t, stack.Redis.Stop(t.Context()))
	require.Zero(t, stack.Redis.Process().ExitCode())
}

func TestReplacedServicesAreNotStarted(t *testing.T) {
	t.Parallel()
	stack := start(t, devstack.Options{
		NATSURL: shared.NATSURL, DatabaseURL: shared.DatabaseURL, RedisURL: shared.RedisURL,
	})
	require.Equal(t, shared.DatabaseURL, stack.DatabaseURL)
	require.Nil(t, stack.Postgres.Process())
	require.ErrorIs(t, stack.Postgres.Kill(), devstack.ErrNotOurs)
	require.ErrorIs(t, stack.NATS.Stop(t.Context()), devstack.ErrNotOurs)

	require.NoError(t, stack.Stop(t.Context()))
	require.Equal(t, "on", setting(t, shared, "fsync"), "the replacement goes on")
}

func TestTakenPortIsReplaced(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	options := devstack.Options{Dir: dir, Small: true, Only: []devstack.Kind{devstack.Redis}}
	first := start(t, options)
	require.NoError(t, first.Stop(t.Context()))

	u, err := url.Parse(first.RedisURL)
	require.NoError(t, err)
	thief, err := net.Listen("tcp", u.Host)
	require.NoError(t, err)
	defer thief.Close()

	second := start(t, options)
	require.NotEqual(t, first.RedisURL, second.RedisURL)
	require.NoError(t, connectRedis(t, second).Ping(t.Context()).Err())
}

func TestServicesSayThatTheirPortIsTaken(t *testing.T) {
	t.Parallel()
	stack := start(t, devstack.Options{Small: true})
	for address, service := range map[string]*devstack.Service{
		stack.NATSURL: stack.NATS, stack.NATSMonitorURL: stack.NATS, stack.DatabaseURL: stack.Postgres, stack.RedisURL: stack.Redis,
	} {
		u, err := url.Parse(address)
		require.NoError(t, err)
		require.NoError(t, service.Stop(t.Context()))
		thief, err := net.Listen("tcp", u.Host)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		require.ErrorIs(t, service.Start(ctx), devstack.ErrPortTaken, address)
		require.NoError(t, ctx.Err(), "it waits for no answer of the thief")
		require.NoError(t, thief.Close())
		require.NoError(t, service.Start(t.Context()))
	}
}

// The health page of another stack's server is as good as that of its own.
func TestAnotherServersHealthIsNotBelieved(t *testing.T) {
	t.Parallel()
	stack := start(t, devstack.Options{Small: true, Only: []devstack.Kind{devstack.NATS}})
	u, err := url.Parse(stack.NATSMonitorURL)
	require.NoError(t, err)
	require.NoError(t, stack.NATS.Stop(t.Context()))
	thief, err := net.Listen("tcp", u.Host)
	require.NoError(t, err)
	other := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	require.NoError(t, other.Listener.Close())
	other.Listener = thief
	other.Start()
	defer other.Close()
	require.ErrorIs(t, stack.NATS.Start(t.Context()), devstack.ErrPortTaken)
}

func TestPostgresDataGoesElsewhereWhereItsUserCannotFollow(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root runs postgres as another user")
	}
	dir := filepath.Join(t.TempDir(), "data") // below a folder of mode 0700
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o700))
	options := devstack.Options{Dir: dir, Small: true, Only: []devstack.Kind{devstack.Postgres}}
	first := start(t, options)
	data := setting(t, first, "data_directory")
	require.NotContains(t, data, dir)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(filepath.Dir(data))) })
	_, err := connectPostgres(t, first).Exec(t.Context(), `CREATE TABLE kept AS SELECT 7 AS n`)
	require.NoError(t, err)
	require.NoError(t, first.Stop(t.Context()))

	second := start(t, options)
	require.Equal(t, data, setting(t, second, "data_directory"))
	_, err = connectPostgres(t, second).Exec(t.Context(), `SELECT n FROM kept`)
	require.NoError(t, err)
}

func TestFailedStartLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	// A file where Redis wants its folder fails the start of one service.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "redis"), nil, 0o600))
	_, err := devstack.Start(t.Context(), devstack.Options{Dir: dir, Small: true})
	require.ErrorContains(t, err, "make redis folder")

	require.NoError(t, os.Remove(filepath.Join(dir, "redis")))
	start(t, devstack.Options{Dir: dir, Small: true})
}

func TestTemporaryFolderIsRemoved(t *testing.T) {
	t.Parallel()
	stack := start(t, devstack.Options{Small: true, Only: []devstack.Kind{devstack.Redis}})
	require.NoError(t, stack.Stop(t.Context()))
	require.NoDirExists(t, stack.Dir())
	require.NoError(t, stack.Stop(t.Context()), "a second stop does nothing")
}

// start starts a stack that is stopped with the test.
func start(t *testing.T, options devstack.Options) *devstack.Stack {
	t.Helper()
	stack, err := devstack.Start(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, stack.Stop(context.Background())) })
	return stack
}

// openDir makes a folder that Postgres's user may pass through.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "devstack-test-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	return dir
}

// write leaves something in NATS and Postgres for requireWritten.
func write(t *testing.T, stack *devstack.Stack) {
	t.Helper()
	js, err := jetstream.New(connectNATS(t, stack))
	require.NoError(t, err)
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "KEPT", Subjects: []string{"kept"}})
	require.NoError(t, err)
	_, err = js.Publish(t.Context(), "kept", []byte("a message"))
	require.NoError(t, err)

	_, err = connectPostgres(t, stack).Exec(t.Context(), `CREATE TABLE kept AS SELECT 7 AS n`)
	require.NoError(t, err)
}

func requireWritten(t *testing.T, stack *devstack.Stack) {
	t.Helper()
	js, err := jetstream.New(connectNATS(t, stack))
	require.NoError(t, err)
	stream, err := js.Stream(t.Context(), "KEPT")
	require.NoError(t, err)
	message, err := stream.GetMsg(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, "a message", string(message.Data))

	var n int
	require.NoError(t, connectPostgres(t, stack).QueryRow(t.Context(), `SELECT n FROM kept`).Scan(&n))
	require.Equal(t, 7, n)
}

func requireGone(t *testing.T, stack *devstack.Stack) {
	t.Helper()
	for _, service := range []*devstack.Service{stack.NATS, stack.Postgres, stack.Redis} {
		require.ErrorIs(t, syscall.Kill(service.Process().PID(), 0), syscall.ESRCH)
		require.Zero(t, service.Process().ExitCode())
	}
}

func setting(t *testing.T, stack *devstack.Stack, name string) string {
	t.Helper()
	var value string
	require.NoError(t, connectPostgres(t, stack).QueryRow(t.Context(), `SELECT current_setting($1)`, name).Scan(&value))
	return value
}

func connectPostgres(t *testing.T, stack *devstack.Stack) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), stack.DatabaseURL)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func connectNATS(t *testing.T, stack *devstack.Stack) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(stack.NATSURL)
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	return nc
}

func connectRedis(t *testing.T, stack *devstack.Stack) *redis.Client {
	t.Helper()
	options, err := redis.ParseURL(stack.RedisURL)
	require.NoError(t, err)
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	return client
}
