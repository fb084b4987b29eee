package config

import (
	"regexp"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/onceledger/onceledger/pkg/ledger"
)

// Bounds of the lists, far above what a person maintains by hand.
const (
	maxSources   = 1000
	maxSecrets   = 8
	maxRules     = 1000
	maxTransfers = 100
	maxPaths     = 100
	maxAssets    = 10_000
	maxAccounts  = 10_000
)

var namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)

const nameWanted = "a name: 1 to 63 of a-z, 0-9 and -, not starting with -"

func defaults() *Config {
	return &Config{
		Receiver: Receiver{Listen: "127.0.0.1:8080", Admin: "127.0.0.1:9080", MaxBody: 1_000_000},
		Worker:   Worker{Admin: "127.0.0.1:9081", AckWait: 30 * time.Second},
		Keeper:   Keeper{Interval: time.Minute, Keep: 72 * time.Hour, Trim: "full", BacklogAlert: time.Hour, Compensate: "on"},
		NATS:     NATS{URL: "nats://127.0.0.1:4222", Replicas: 1, EventsMaxBytes: 8 << 30, DLQMaxBytes: 2 << 30},
		Alerts:   Alerts{Network: "public"},
		Retry:    Retry{Attempts: 10, Age: 24 * time.Hour, Base: time.Second, Cap: 10 * time.Minute},

		AccountsPolicy: "open",
	}
}

// fileKeys is the schema of the whole file.
func fileKeys(c *Config) keys {
	return keys{
		"receiver": mapping(keys{
			"listen":   address(&c.Receiver.Listen, "RECEIVER_LISTEN"),
			"admin":    address(&c.Receiver.Admin, "RECEIVER_ADMIN"),
			"max_body": size(&c.Receiver.MaxBody, 1<<10, 64<<20),
		}),
		"worker": mapping(keys{
			"admin":    address(&c.Worker.Admin, "WORKER_ADMIN"),
			"ack_wait": duration(&c.Worker.AckWait, time.Second, time.Hour),
		}),
		"keeper": mapping(keys{
			"interval":      duration(&c.Keeper.Interval, time.Second, 24*time.Hour),
			"keep":          duration(&c.Keeper.Keep, time.Minute, 365*24*time.Hour),
			"trim":          oneOf(&c.Keeper.Trim, "full", "age"),
			"backlog_alert": duration(&c.Keeper.BacklogAlert, time.Second, 90*24*time.Hour),
			"compensate":    oneOf(&c.Keeper.Compensate, "on", "off"),
		}),
		"nats": mapping(keys{
			"url": setting("NATS_URL", true, checkURL(true, "nats", "tls", "ws", "wss"),
				func(s string) { c.NATS.URL = s }),
			"monitor_url": setting("NATS_MONITOR_URL", true, checkURL(false, "http", "https"),
				func(s string) { c.NATS.MonitorURL = s }),
			"durability":       oneOf(&c.NATS.Durability, "assumed"),
			"replicas":         integer(&c.NATS.Replicas, 1, 5),
			"events_max_bytes": size(&c.NATS.EventsMaxBytes, 64<<10, 1<<50),
			"dlq_max_bytes":    size(&c.NATS.DLQMaxBytes, 64<<10, 1<<50),
		}),
		"database": mapping(keys{
			"url": setting("DATABASE_URL", true, checkURL(false, "postgres", "postgresql"),
				func(s string) { c.Database.URL = NewSecret(s) }),
		}),
		"redis": mapping(keys{
			"url": setting("REDIS_URL", true, checkURL(false, "redis", "rediss", "unix"),
				func(s string) { c.Redis.URL = NewSecret(s) }),
		}),
		"alerts": mapping(keys{
			"url":     setting("ALERTS_URL", true, checkOutbound, func(s string) { c.Alerts.URL = NewSecret(s) }),
			"secret":  setting("ALERTS_SECRET", true, checkAlertSecret, func(s string) { c.Alerts.Secret = NewSecret(s) }),
			"network": oneOf(&c.Alerts.Network, "public", "private"),
		}),
		"retry":           retry(&c.Retry),
		"assets":          items(&c.Assets, maxAssets, assetKeys),
		"accounts":        items(&c.Accounts, maxAccounts, accountKeys),
		"accounts_policy": oneOf(&c.AccountsPolicy, "open", "declared", "explicit"),
		"sources":         sources(&c.Sources),
	}
}

func retryKeys(b *Retry) keys {
	return keys{
		"attempts": integer(&b.Attempts, 1, 1000),
		"age":      duration(&b.Age, time.Second, 90*24*time.Hour),
		"base":     duration(&b.Base, time.Millisecond, time.Hour),
		"cap":      duration(&b.Cap, time.Millisecond, 24*time.Hour),
	}
}

// retry is the global budget; it is complete from the start.
func retry(b *Retry) field {
	f := mapping(retryKeys(b))
	f.read = func(r *reader, v value) {
		seen := r.object(v, retryKeys(b))
		checkDelays(r, v.path, *b, seen)
	}
	return f
}

// checkDelays wants base ≤ cap; it blames the key that was given.
func checkDelays(r *reader, path string, b Retry, seen map[string]Pos) {
	if b.Base <= b.Cap {
		return
	}
	name := "cap"
	if _, given := seen[name]; !given {
		name = "base"
	}
	r.fault(seen[name], join(path, name), "base %s exceeds cap %s", formatDuration(b.Base), formatDuration(b.Cap))
}

func assetKeys(a *Asset, _ Pos) keys {
	code := text(&a.Code)
	read := code.read
	code.read = func(r *reader, v value) {
		read(r, v)
		if a.Code.Value == "" {
			return
		}
		if err := (ledger.Asset{Code: a.Code.Value}).Validate(); err != nil {
			r.fault(a.Code.Pos, v.path, "%s", oneLine(err))
		}
	}
	return keys{
		"code":     code.require(),
		"exponent": integer(&a.Exponent, 0, ledger.MaxExponent).require(),
	}
}

func accountKeys(a *Account, _ Pos) keys {
	match := text(&a.Match)
	read := match.read
	match.read = func(r *reader, v value) {
		read(r, v)
		if name, _ := strings.CutSuffix(a.Match.Value, "*"); strings.Contains(name, "*") {
			r.fault(a.Match.Pos, v.path, "%q has a * before its end; one * may stand last", a.Match.Value)
		}
		if strings.ContainsAny(strings.ReplaceAll(a.Match.Value, SourceMark, ""), "{}") {
			r.fault(a.Match.Pos, v.path, "%q has a brace; only %s may stand in braces", a.Match.Value, SourceMark)
		}
	}
	return keys{
		"match":  match.require(),
		"asset":  assetCodes(&a.Assets),
		"limit":  oneOf(&a.Limit, "debits_must_not_exceed_credits", "credits_must_not_exceed_debits"),
		"policy": oneOf(&a.Policy, "enforce", "record"),
	}
}

// assetCodes is one text, or a list of different ones.
func assetCodes(target *[]Text) field {
	return field{read: func(r *reader, v value) {
		seen := map[string]Pos{}
		add := func(v value) {
			if t, ok := r.text(v, false); ok {
				repeated(r, seen, t, v.path)
				*target = append(*target, t)
			}
		}
		resolved, ok := r.resolve(v)
		if _, many := resolved.node.(*ast.SequenceNode); !ok || !many {
			if ok {
				add(v)
			}
			return
		}
		faults := len(r.faults)
		r.list(v, maxPaths, add)
		if len(*target) == 0 && len(r.faults) == faults {
			r.fault(v.at, v.path, "is empty; leave it out where any asset will do")
		}
	}}
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
