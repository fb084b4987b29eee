package local_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/onceledger/onceledger/internal/local"
	"github.com/onceledger/onceledger/internal/telemetry"
)

// TestMain makes this binary a child that does nothing but listen.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "run" {
		if err := listen(os.Args[2]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func listen(kind string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	admin := os.Getenv("WORKER_ADMIN")
	if kind == string(local.Receiver) {
		admin = os.Getenv("RECEIVER_ADMIN")
		l, err := net.Listen("tcp", os.Getenv("RECEIVER_LISTEN"))
		if err != nil {
			return err
		}
		defer l.Close()
	}
	return telemetry.ServeAdmin(ctx, admin, telemetry.NewRegistry(), func(context.Context) error { return nil })
}

// program is a child that listens where others do, and moves up from there.
func program(t *testing.T, kind local.Kind, admin string) (p local.Program, move func(*local.Program) error) {
	t.Helper()
	p = local.Program{Kind: kind, Name: string(kind), Config: "none", Admin: admin, LogFile: filepath.Join(t.TempDir(), "log")}
	var ports local.Ports
	return p, func(p *local.Program) (err error) {
		p.Admin, err = ports.Take(admin)
		return err
	}
}

// requireItsOwn wants a child that is asked at its address, and stops it.
func requireItsOwn(t *testing.T, child *local.Process) {
	t.Helper()
	response, err := http.Get("http://" + child.Admin + "/healthz")
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, strconv.Itoa(child.PID()), response.Header.Get(telemetry.HeaderProcess))
	require.NoError(t, child.Stop(t.Context()))
}

func TestAnAddressIsLostAfterItsChoice(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]http.HandlerFunc{
		"to a worker that is ready":   telemetry.AdminHandler(telemetry.NewRegistry(), func(context.Context) error { return nil }).ServeHTTP,
		"to another program":          func(http.ResponseWriter, *http.Request) {},
		"to one that is not ready":    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"to one that does not answer": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(other)
			defer server.Close()
			p, move := program(t, local.Worker, server.Listener.Addr().String())
			child, err := p.StartAnywhere(t.Context(), move)
			require.NoError(t, err)
			requireItsOwn(t, child)
		})
	}
}

func TestAReceiverSaysThatItsAddressIsTaken(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	p, move := program(t, local.Receiver, "127.0.0.1:0")
	p.Listen = taken.Addr().String()
	_, err = p.StartAnywhere(t.Context(), move)
	require.ErrorIs(t, err, local.ErrPortTaken)
	require.ErrorContains(t, err, p.Listen)
}

func TestChildrenOfSeveralStartAtOnce(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(nil)
	first := server.Listener.Addr().String()
	server.Close()
	children := make([]*local.Process, 8)
	var group errgroup.Group
	for i := range children {
		p, move := program(t, local.Worker, first) // each chooses for itself
		group.Go(func() (err error) {
			children[i], err = p.StartAnywhere(t.Context(), move)
			return err
		})
	}
	require.NoError(t, group.Wait())
	for _, child := range children {
		requireItsOwn(t, child)
	}
}
