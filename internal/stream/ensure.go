package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceledger/onceledger/internal/config"
)

const (
	// apiTimeout bounds one call to the JetStream API.
	apiTimeout = 5 * time.Second
	// eventsWindow is the server's minimum: no event has a Nats-Msg-Id, since
	// one known id rejects a whole batch, and a window costs memory for each id.
	eventsWindow = 100 * time.Millisecond
	// lettersWindow is how long two workers that park the same event store one
	// letter.
	lettersWindow = 2 * time.Minute
	// unlimited is how the server writes "no limit".
	unlimited = -1
)

// Settings returns the two streams as they must be: kept on disk, never
// discarding what was accepted, and refusing new messages when full.
func Settings(cfg config.NATS) (events, dlq jetstream.StreamConfig) {
	base := jetstream.StreamConfig{
		Retention:         jetstream.LimitsPolicy,
		Storage:           jetstream.FileStorage,
		Discard:           jetstream.DiscardNew,
		Replicas:          max(cfg.Replicas, 1),
		AllowDirect:       true,
		MaxMsgs:           unlimited,
		MaxMsgsPerSubject: unlimited,
		MaxMsgSize:        unlimited,
		MaxConsumers:      unlimited,
	}
	events, dlq = base, base
	events.Name, events.Subjects = Events, []string{EventsSubjects}
	events.Description = "verified webhook deliveries, kept until the audit has accounted for them"
	events.MaxBytes = cfg.EventsMaxBytes
	events.AllowAtomicPublish = true
	events.Duplicates = eventsWindow

	dlq.Name, dlq.Subjects = DLQ, []string{DLQSubjects}
	dlq.Description = "dead letters: what could not be applied, with its reason"
	dlq.MaxBytes = cfg.DLQMaxBytes
	dlq.Duplicates = lettersWindow
	return events, dlq
}

// Ensure creates the streams that are missing and compares the ones that are
// there. It never changes an existing stream: other settings, and limits that
// together exceed the store, are a SettingsError that lists all of them.
func Ensure(ctx context.Context, js jetstream.JetStream, cfg config.NATS) error {
	var diffs SettingsError
	limit, err := storeLimit(ctx, js, cfg)
	if err != nil {
		return err
	}
	// A full EVENTS must never be able to stop parking.
	if sum := cfg.EventsMaxBytes + cfg.DLQMaxBytes; limit > 0 && sum > limit {
		return SettingsError{{
			Setting: "events_max_bytes + dlq_max_bytes",
			Have:    strconv.FormatInt(sum, 10),
			Want:    "at most the store limit of " + strconv.FormatInt(limit, 10),
			Change:  "lower them in onceledger.yaml, or raise max_file_store of the server or account",
		}}
	}
	events, dlq := Settings(cfg)
	for _, want := range []jetstream.StreamConfig{events, dlq} {
		found, err := ensure(ctx, js, want)
		if err != nil {
			return err
		}
		diffs = append(diffs, found...)
	}
	if len(diffs) > 0 {
		return diffs
	}
	return nil
}

// ensure creates want or compares it; two programs may do so at once.
func ensure(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig) ([]Difference, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	s, err := js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		s, err = js.CreateStream(ctx, want)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			s, err = js.Stream(ctx, want.Name)
		}
	}
	if err != nil {
		return nil, refusedBy(err, want)
	}
	return compare(s.CachedInfo().Config, want), nil
}

// The server's answers that a person has to act upon.
const (
	errCodeStorage     = 10047 // insufficient storage resources available
	errCodeOverlap     = 10065 // subjects overlap with an existing stream
	errCodeReplicas    = 10074 // replicas > 1 not supported in non-clustered mode
	errCodeNoPeers     = 10005 // no suitable peers for placement
	errCodeMaxBytes    = 10113 // account requires a stream config to have max bytes set
	errCodeMaxStreamSz = 10122 // stream max bytes exceeds account limit max stream bytes
)

func refusedBy(err error, want jetstream.StreamConfig) error {
	change := map[jetstream.ErrorCode]string{
		errCodeStorage:     "lower events_max_bytes and dlq_max_bytes, or raise max_file_store of the server",
		errCodeMaxStreamSz: "lower the stream's max bytes, or raise the account's limit",
		errCodeMaxBytes:    "set events_max_bytes and dlq_max_bytes",
		errCodeOverlap:     "another stream stores these subjects; remove it or let onceledger have an account of its own",
		errCodeReplicas:    "set replicas: 1, or connect to a cluster",
		errCodeNoPeers:     "set replicas to the number of servers, or start the missing ones",
	}
	var api jetstream.JetStreamError
	if errors.As(err, &api) && api.APIError() != nil {
		if c, ok := change[api.APIError().ErrorCode]; ok {
			return SettingsError{{
				Setting: want.Name, Have: api.APIError().Description,
				Want: fmt.Sprintf("a stream of %d bytes, %d replicas, subjects %v", want.MaxBytes, want.Replicas, want.Subjects), Change: c,
			}}
		}
	}
	return fmt.Errorf("ensure stream %s: %w", want.Name, err)
}

// compare lists what of have is not as want says. Settings that only describe
// (description, metadata, placement) are the operator's.
func compare(have, want jetstream.StreamConfig) []Difference {
	var diffs []Difference
	check := func(setting string, h, w any) {
		hs, ws := fmt.Sprint(h), fmt.Sprint(w)
		if hs != ws {
			diffs = append(diffs, Difference{Setting: want.Name + " " + setting, Have: hs, Want: ws, Change: changeOf(want.Name, setting, w)})
		}
	}
	limit := func(setting string, h, w int64) {
		if h > 0 || w > 0 {
			check(setting, h, w)
		}
	}
	slices.Sort(have.Subjects)
	check("subjects", have.Subjects, want.Subjects)
	check("storage", have.Storage, want.Storage)
	check("retention", have.Retention, want.Retention)
	check("discard", have.Discard, want.Discard)
	check("discard per subject", have.DiscardNewPerSubject, want.DiscardNewPerSubject)
	check("replicas", have.Replicas, want.Replicas)
	limit("max bytes", have.MaxBytes, want.MaxBytes)
	limit("max messages", have.MaxMsgs, want.MaxMsgs)
	limit("max messages per subject", have.MaxMsgsPerSubject, want.MaxMsgsPerSubject)
	limit("max message size", int64(have.MaxMsgSize), int64(want.MaxMsgSize))
	check("max age", have.MaxAge, want.MaxAge)
	check("persist mode", have.PersistMode, want.PersistMode)
	check("atomic publish", have.AllowAtomicPublish, want.AllowAtomicPublish)
	check("direct get", have.AllowDirect, want.AllowDirect)
	check("no ack", have.NoAck, want.NoAck)
	check("sealed", have.Sealed, want.Sealed)
	check("deny delete", have.DenyDelete, want.DenyDelete)
	check("deny purge", have.DenyPurge, want.DenyPurge)
	check("message ttl", have.AllowMsgTTL, want.AllowMsgTTL)
	check("message counter", have.AllowMsgCounter, want.AllowMsgCounter)
	check("subject transform", have.SubjectTransform != nil, false)
	check("mirror", have.Mirror != nil, false)
	check("sources", len(have.Sources), 0)
	return diffs
}

// changeOf gives the command for a setting the nats command can edit.
func changeOf(stream, setting string, want any) string {
	switch setting {
	case "max bytes":
		return fmt.Sprintf("nats stream edit %s --max-bytes %v, or set it so in onceledger.yaml", stream, want)
	case "replicas":
		return fmt.Sprintf("nats stream edit %s --replicas %v, or set it so in onceledger.yaml", stream, want)
	case "max age":
		return "nats stream edit " + stream + " --max-age 0: age deletes what was not applied yet, in silence"
	case "discard":
		return "nats stream edit " + stream + " --discard new: old discards what was not applied yet, in silence"
	case "storage", "retention", "persist mode", "mirror":
		return "cannot be edited: back up " + stream + ", remove it, and start again"
	default:
		return ""
	}
}

// storeLimit is how much the account may store, or, where it has no limit of
// its own, the server as far as its monitoring address says so; 0 is unknown.
func storeLimit(ctx context.Context, js jetstream.JetStream, cfg config.NATS) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	info, err := js.AccountInfo(ctx)
	if errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) {
		return 0, SettingsError{{Setting: "jetstream", Have: "off", Want: "on", Change: "start nats-server with -js, or enable it for this account"}}
	}
	if err != nil {
		return 0, fmt.Errorf("read account limits: %w", err)
	}
	limits := info.Limits
	if tier, ok := info.Tiers[fmt.Sprintf("R%d", max(cfg.Replicas, 1))]; ok {
		limits = tier.Limits
	}
	if limits.MaxStore > 0 {
		return limits.MaxStore, nil
	}
	if cfg.MonitorURL == "" {
		return 0, nil
	}
	server, err := readServer(ctx, cfg.MonitorURL)
	if err != nil {
		return 0, err
	}
	return server.Config.MaxStore, nil
}
