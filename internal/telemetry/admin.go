package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// HeaderProcess is in each answer of /healthz and /readyz: the number of the
// process that gives it, for whoever started one and has to know that it is that.
const HeaderProcess = "Onceledger-Process"

const (
	// adminTimeout bounds each phase of a request; scrapes take milliseconds.
	adminTimeout = 10 * time.Second
	// readyTimeout bounds one readiness check: orchestrators give up after a
	// second or more, and a check that hangs is itself the answer.
	readyTimeout = 2 * time.Second
	// adminDrain is how long a stop waits for a scrape that is under way.
	adminDrain = time.Second
	// adminHeader is the largest request header in bytes.
	adminHeader = 8 << 10
)

// ServeAdmin serves /healthz, /readyz and /metrics on addr until ctx is done.
// It does not return nil before its listener is closed, and returns the error of
// the listener at once where addr cannot be used.
func ServeAdmin(ctx context.Context, addr string, reg *prometheus.Registry, ready func(context.Context) error) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("listen on admin address: %w", err)
	}
	srv := &http.Server{
		Handler:           AdminHandler(reg, ready),
		ReadHeaderTimeout: adminTimeout,
		ReadTimeout:       adminTimeout,
		WriteTimeout:      adminTimeout,
		IdleTimeout:       adminTimeout,
		MaxHeaderBytes:    adminHeader,
	}
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), adminDrain)
		defer cancel()
		err := srv.Shutdown(limit)
		if err != nil {
			err = srv.Close()
		}
		stopped <- err
	})
	if err := srv.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		stop()
		return fmt.Errorf("serve admin address: %w", err)
	}
	return <-stopped
}

// AdminHandler answers the three admin paths. /healthz says that the process
// lives; /readyz answers 503 with the reason while ready returns an error.
func AdminHandler(reg *prometheus.Registry, ready func(context.Context) error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, health{Status: "ok", Version: Version()})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
		defer cancel()
		if err := ready(ctx); err != nil {
			answer(w, http.StatusServiceUnavailable, health{Status: "not ready", Reason: err.Error()})
			return
		}
		answer(w, http.StatusOK, health{Status: "ready"})
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{Registry: reg}))
	return mux
}

type health struct {
	Status  string `json:"status"`
	Reason  string `json:"reason,omitempty"`
	Version string `json:"version,omitempty"`
}

func answer(w http.ResponseWriter, status int, body health) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set(HeaderProcess, strconv.Itoa(os.Getpid()))
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the peer went away: nobody is left to tell
}
