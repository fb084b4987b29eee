package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/rs/zerolog"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/telemetry"
)

// Proof says how we know that the server syncs before it answers.
type Proof string

// The three kinds of knowledge.
const (
	// Verified: the server's monitoring address says sync_interval: always.
	Verified Proof = "verified"
	// Assumed: nobody could look, and the configuration says durability: assumed.
	Assumed Proof = "assumed"
	// Unknown: nobody could look; the metric stays at 0 until somebody does.
	Unknown Proof = "unknown"
)

// errUnseen is a monitoring address that did not answer.
var errUnseen = errors.New("nobody could look")

// monitorBytes bounds the monitoring answer; a real one is a few hundred bytes.
const monitorBytes = 1 << 20

// jsz is the part of the server's /jsz?config=true that we read.
type jsz struct {
	Disabled bool `json:"disabled"`
	Config   struct {
		MaxStore   int64 `json:"max_storage"`
		SyncAlways bool  `json:"sync_always"`
	} `json:"config"`
}

// CheckDurability reads the server's settings at its monitoring address and
// returns ErrDurability unless it has sync_interval: always. It sees the one
// server that answers there: in a cluster, give all servers one configuration.
func CheckDurability(ctx context.Context, monitorURL string) error {
	server, err := readServer(ctx, monitorURL)
	if err != nil {
		return err
	}
	if !server.Config.SyncAlways {
		return fmt.Errorf("%w: set sync_interval: always in the jetstream block of its configuration; "+
			"the default answers up to two minutes before the data is on disk", ErrDurability)
	}
	return nil
}

// ProveDurability checks what the configuration allows to check: ErrDurability
// where the server does not sync, a warning where nobody could look and nobody
// said that it does.
func ProveDurability(ctx context.Context, cfg config.NATS, log zerolog.Logger) (Proof, error) {
	switch {
	case cfg.MonitorURL != "":
		if err := CheckDurability(ctx, cfg.MonitorURL); err != nil {
			return Unknown, err
		}
		return Verified, nil
	case cfg.Durability == string(Assumed):
		return Assumed, nil
	default:
		log.Warn().Str(telemetry.KeyHint, "set nats.monitor_url (NATS_MONITOR_URL), or durability: assumed once you have looked").
			Msg("cannot see whether nats syncs before it answers")
		return Unknown, nil
	}
}

// readServer asks the monitoring address. That it does not answer is a refusal
// too: it was configured so that we look.
func readServer(ctx context.Context, monitorURL string) (*jsz, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	refuse := func(err error) error {
		return fmt.Errorf("%w: %w: read %s/jsz: %w; correct nats.monitor_url, or leave it empty and set durability: assumed",
			ErrDurability, errUnseen, monitorURL, err)
	}
	address, err := url.JoinPath(monitorURL, "jsz")
	if err != nil {
		return nil, refuse(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"?config=true", nil)
	if err != nil {
		return nil, refuse(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return nil, refuse(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, refuse(fmt.Errorf("status %s", res.Status))
	}
	var out jsz
	if err := json.NewDecoder(io.LimitReader(res.Body, monitorBytes)).Decode(&out); err != nil {
		return nil, refuse(err)
	}
	return &out, nil
}
