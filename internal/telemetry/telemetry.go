// Package telemetry holds what every program of onceledger shows of itself:
// JSON logs with stable keys, Prometheus metrics, and an admin server on a port
// of its own with /healthz, /readyz and /metrics.
//
//	log := telemetry.NewLogger(os.Stderr, "info")
//	reg := telemetry.NewRegistry()
//	err := telemetry.ServeAdmin(ctx, "127.0.0.1:9080", reg, ready)
package telemetry

import (
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Namespace is the first word of every metric's name.
const Namespace = "onceledger"

// version is set by release builds: -ldflags "-X …/internal/telemetry.version=v1.2.3".
var version string

// NewRegistry returns a registry that already collects the Go runtime, the
// process and the build of this binary.
func NewRegistry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace:   Namespace,
		Name:        "build_info",
		Help:        "Always 1; the label says which build runs.",
		ConstLabels: prometheus.Labels{"version": Version()},
	})
	build.Set(1)
	reg.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		build,
	)
	return reg
}

// Version returns the version of this build: the release's, else the module's,
// else the commit it was built from, else "devel".
func Version() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	return commit(info.Settings)
}

// commit names the commit of a build, marked where files were changed after it.
func commit(settings []debug.BuildSetting) string {
	var revision, dirty string
	for _, s := range settings {
		switch s.Key {
		case "vcs.revision":
			revision = s.Value
		case "vcs.modified":
			if s.Value == "true" {
				dirty = "-dirty"
			}
		}
	}
	if revision == "" {
		return "devel"
	}
	return "devel-" + revision[:min(len(revision), 12)] + dirty
}
