package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/onceledger/onceledger/internal/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ok(context.Context) error { return nil }

func TestAdminHandler(t *testing.T) {
	t.Parallel()
	get := func(h http.Handler, method, path string) (int, string) {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, httptest.NewRequest(method, path, nil))
		return rec.Code, rec.Body.String()
	}
	reg := telemetry.NewRegistry()

	t.Run("a living process is healthy even when it is not ready", func(t *testing.T) {
		t.Parallel()
		h := telemetry.AdminHandler(reg, func(context.Context) error { return errors.New("stream away") })
		status, body := get(h, http.MethodGet, "/healthz")
		require.Equal(t, http.StatusOK, status)
		require.Contains(t, body, `"status":"ok"`)
		require.Contains(t, body, telemetry.Version())
	})
	t.Run("readiness says why not", func(t *testing.T) {
		t.Parallel()
		h := telemetry.AdminHandler(reg, func(context.Context) error { return errors.New("stream away") })
		status, body := get(h, http.MethodGet, "/readyz")
		require.Equal(t, http.StatusServiceUnavailable, status)
		require.JSONEq(t, `{"status":"not ready","reason":"stream away"}`, body)
	})
	t.Run("a readiness check has a deadline", func(t *testing.T) {
		t.Parallel()
		h := telemetry.AdminHandler(reg, func(ctx context.Context) error {
			_, bounded := ctx.Deadline()
			require.True(t, bounded)
			return nil
		})
		status, body := get(h, http.MethodGet, "/readyz")
		require.Equal(t, http.StatusOK, status)
		require.JSONEq(t, `{"status":"ready"}`, body)
	})
	t.Run("metrics include runtime, process and build", func(t *testing.T) {
		t.Parallel()
		status, body := get(telemetry.AdminHandler(reg, ok), http.MethodGet, "/metrics")
		require.Equal(t, http.StatusOK, status)
		require.Contains(t, body, "go_goroutines")
		require.Contains(t, body, "process_start_time_seconds")
		require.Contains(t, body, `onceledger_build_info{version="`)
	})
	t.Run("only GET is answered", func(t *testing.T) {
		t.Parallel()
		status, _ := get(telemetry.AdminHandler(reg, ok), http.MethodPost, "/readyz")
		require.Equal(t, http.StatusMethodNotAllowed, status)
	})
}

func TestServeAdmin(t *testing.T) {
	t.Parallel()
	// Below the ports that the system gives to clients, who would take it meanwhile.
	free := func(t *testing.T) string {
		for {
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(10_000)))
			if err == nil {
				require.NoError(t, l.Close())
				return l.Addr().String()
			}
		}
	}

	t.Run("serves until its context ends and then frees the port", func(t *testing.T) {
		t.Parallel()
		addr := free(t)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- telemetry.ServeAdmin(ctx, addr, telemetry.NewRegistry(), ok) }()

		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		require.Eventually(t, func() bool {
			res, err := client.Get("http://" + addr + "/readyz")
			if err != nil {
				return false
			}
			_, _ = io.Copy(io.Discard, res.Body)
			return res.Body.Close() == nil && res.StatusCode == http.StatusOK
		}, 20*time.Second, 5*time.Millisecond)

		cancel()
		require.NoError(t, <-done)
		l, err := net.Listen("tcp", addr)
		require.NoError(t, err)
		require.NoError(t, l.Close())
	})
	t.Run("an address in use is an error at once", func(t *testing.T) {
		t.Parallel()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer l.Close()
		err = telemetry.ServeAdmin(t.Context(), l.Addr().String(), telemetry.NewRegistry(), ok)
		require.ErrorContains(t, err, "listen on admin address")
	})
}

func TestNewLogger(t *testing.T) {
	t.Parallel()
	t.Run("writes JSON lines with a UTC time to anything but a terminal", func(t *testing.T) {
		t.Parallel()
		var out bytes.Buffer
		log := telemetry.NewLogger(&out, "info")
		log.Info().Str(telemetry.KeySource, "stripe").Msg("delivery refused")
		log.Debug().Msg("not shown")

		var line map[string]string
		require.NoError(t, json.Unmarshal(out.Bytes(), &line), "one line of JSON")
		require.Equal(t, "stripe", line["source"])
		require.Equal(t, "delivery refused", line["message"])
		_, err := time.Parse("2006-01-02T15:04:05.000Z", line["time"])
		require.NoError(t, err)
	})
	t.Run("an unknown level means info", func(t *testing.T) {
		t.Parallel()
		var out bytes.Buffer
		log := telemetry.NewLogger(&out, "loud")
		log.Debug().Msg("hidden")
		require.Empty(t, out.String())
		log.Info().Msg("shown")
		require.NotEmpty(t, out.String())
	})
}
