package config

import (
	"time"
	"unique"
)

// Pos is a place in the configuration file; lines and columns count from 1.
type Pos struct {
	Line, Column int
}

// Text is a string of the file with the place it stands at, so that whoever
// compiles it later can point there: see Text.At.
type Text struct {
	Value string
	// Pos is the first character of the content: after an opening quote, or on
	// the first line of a block.
	Pos Pos

	origin *origin
}

// Secret is a string that never prints: not in logs, errors, JSON or YAML.
// Equal secrets are ==. Its zero value is no secret.
type Secret struct {
	// A handle prints as an address even where fmt cannot call methods, as
	// within unexported fields.
	value unique.Handle[string]
}

// Config is a whole onceledger.yaml after environment and defaults.
type Config struct {
	// File is the path the configuration was read from.
	File string

	Receiver Receiver
	Worker   Worker
	Keeper   Keeper
	NATS     NATS
	Database Database
	Redis    Redis
	Alerts   Alerts
	Retry    Retry
	Assets   []Asset
	Accounts []Account
	// AccountsPolicy says which accounts open with their first transfer: "open" (all,
	// default), "declared" (those that an item of Accounts matches) or "explicit"
	// (none). The others wait for an operator.
	AccountsPolicy string
	Sources        []Source

	places map[string]Pos
}

// Receiver configures the HTTP side.
type Receiver struct {
	// Listen is the public address of the webhooks; RECEIVER_LISTEN. Default 127.0.0.1:8080.
	Listen string
	// Admin is the address of /healthz, /readyz and /metrics; RECEIVER_ADMIN. Default 127.0.0.1:9080.
	Admin string
	// MaxBody is the largest body in bytes. Default 1 MiB minus room for headers (1,000,000).
	MaxBody int64
}

// Worker configures the applying side.
type Worker struct {
	// Admin is the address of /healthz, /readyz and /metrics; WORKER_ADMIN. Default 127.0.0.1:9081.
	Admin string
	// AckWait is how long the broker waits before it gives a message to another worker. Default 30s.
	AckWait time.Duration
}

// Keeper configures the standing upkeep, which one worker at a time does.
type Keeper struct {
	// Interval is how often what arrived is audited and what is missing sent
	// again. Default 1m.
	Interval time.Duration
	// Keep is how long messages stay in EVENTS for inspection and replay, and
	// how old a backup of Postgres may be. Default 72h.
	Keep time.Duration
	// Trim is "full" (when EVENTS fills, default) or "age" (as soon as messages
	// are older than Keep).
	Trim string
	// BacklogAlert is how old an undecided message may be before a person is
	// told. Default 1h.
	BacklogAlert time.Duration
	// Compensate is "on" (default) or "off": whether parked events are sent again
	// without a person, where that can help.
	Compensate string
}

// NATS configures the broker.
type NATS struct {
	// URL is NATS_URL. Default nats://127.0.0.1:4222.
	URL string
	// MonitorURL is NATS_MONITOR_URL, the server's HTTP monitoring address,
	// where sync_interval can be read; empty: it cannot be checked.
	MonitorURL string
	// Durability "assumed" silences the warning where MonitorURL is empty.
	Durability string
	// Replicas of both streams. Default 1.
	Replicas int
	// EventsMaxBytes and DLQMaxBytes bound the streams. Defaults 8 GiB and 2 GiB.
	EventsMaxBytes, DLQMaxBytes int64
}

// Database configures Postgres.
type Database struct {
	// URL is DATABASE_URL.
	URL Secret
}

// Redis configures the claim cache.
type Redis struct {
	// URL is REDIS_URL.
	URL Secret
}

// Alerts configures where conflicts are reported, as Standard Webhooks.
type Alerts struct {
	// URL is ALERTS_URL; empty: nobody is told. It may hold a token, and so is a
	// secret. It is https, or http to this machine.
	URL Secret
	// Secret is ALERTS_SECRET: whsec_ and base64 of 24 to 64 bytes. It signs.
	Secret Secret
	// Network is "public" (default), or "private" where the receiver may have an
	// address of a private network.
	Network string
}

// Retry is the budget of an event whose failure may pass.
type Retry struct {
	// Attempts is how often an event is tried before it is parked. Default 10.
	Attempts int
	// Age is how long after its first failure an event is still tried. Default 24h.
	Age time.Duration
	// Base and Cap bound the delay: uniform in [0, min(Cap, Base·2ⁿ)]. Defaults 1s and 10m.
	Base, Cap time.Duration
}

// Asset declares an asset that is not in ISO 4217.
type Asset struct {
	Code     Text
	Exponent int
}

// SourceMark in an account's match stands for the name of each source.
const SourceMark = "{source}"

// Account declares what the accounts whose name matches Match may do.
type Account struct {
	// Match is an account name; one trailing * matches any rest, and SourceMark the
	// name of any source.
	Match Text
	// Assets are the only ones that these accounts are moved in; none: any.
	Assets []Text
	// Limit is "debits_must_not_exceed_credits", "credits_must_not_exceed_debits" or empty.
	Limit string
	// Policy is "enforce" (a spend is refused) or "record" (a fact is posted and
	// marked); empty where Limit is.
	Policy string
}

// Source is one webhook endpoint: POST /webhooks/{Name}.
type Source struct {
	Name     Text
	Provider Text
	// Secrets are all live ones; any of them verifies.
	Secrets []Secret
	// Mode is "live" (default) or "test": events of the other mode move no money.
	Mode string
	// OperationScope replaces Name in operation keys, so that sources may share payments.
	OperationScope string
	// Unmatched is "ignore" (default) or "park" for event types no rule matches.
	Unmatched string
	// Tolerance overrides the provider's replay tolerance; 0 keeps it.
	Tolerance time.Duration
	// HMAC configures provider "hmac"; nil for others.
	HMAC *HMAC
	// URL is the address as it is registered with the provider, where that signs it.
	URL Text
	// PublicKeys are PEM blocks, or base64 of their content: what the provider
	// publishes to verify its signatures.
	PublicKeys []Text
	// VerifyToken is what the provider sends back when it registers the endpoint.
	VerifyToken Secret
	// Audience is who the provider's tokens must be for.
	Audience Text
	// ServiceAccount is the e-mail address of who pushes, where tokens name it.
	ServiceAccount Text
	// WebhookID is the id of the endpoint at the provider, where that signs it.
	WebhookID Text
	// ID, Type, Time and Account say where a generic source keeps them:
	// "header:X-Name" or "body:path.to.member".
	ID, Type, Time, Account, LiveMode Text
	// Fingerprint lists body paths that carry the event's meaning.
	Fingerprint []Text
	// Retry is the source's own budget, complete; nil keeps Config.Retry.
	Retry *Retry
	// Fetch says how to ask the provider's API for what its notices only hint at;
	// nil: they are parked.
	Fetch *Fetch
	Rules []Rule
	Pos   Pos
}

// HMAC is the generic signature scheme.
type HMAC struct {
	// Header carries the signature; Prefix is cut off first, for example "sha256=".
	Header, Prefix string
	// Encoding is "hex" or "base64"; Algorithm is "sha1", "sha256" or "sha512".
	Encoding, Algorithm string
	// Content is the signed text: {body}, {timestamp}, {id}; default "{body}".
	Content Text
	// TimestampHeader carries unix seconds; needed where Content has {timestamp}.
	TimestampHeader string
	// IDHeader carries {id}; needed where Content has {id}.
	IDHeader string
}

// Fetch is access to a provider's API.
type Fetch struct {
	// URL replaces the provider's own; https, or http to this machine.
	URL Text
	// Token lets requests in: an API key, or the JSON key of a service account.
	Token Secret
	// Timeout bounds one request. Default 5s.
	Timeout time.Duration
	Pos     Pos
}

// Rule says which transfers arise from the events that When selects.
type Rule struct {
	When Text
	// Expect is optional: what must be true of an event that When lets in.
	Expect    Text
	Transfers []Transfer
	Pos       Pos
}

// Transfer holds one transfer's CEL expressions. One with Voids has no accounts, no
// amount and no asset.
type Transfer struct {
	Debit, Credit, Amount, Asset, Operation Text
	// Parent is optional: the operation that this one is about. Refunds, in its
	// place, is the one of which it gives back a part.
	Parent, Refunds Text
	// RunningTotal is set where the amount is all that was given back of Refunds so
	// far.
	RunningTotal bool
	// Hold is set where the amount is held for Expires instead of moved.
	Hold    bool
	Expires time.Duration
	// Captures, in place of Parent, is the hold that a transfer takes its amount out
	// of, and Voids the one of which what is left is released.
	Captures, Voids Text
	// Final is the condition under which a capture is the last one.
	Final Text
	// Fact is set where a capture is posted whatever became of its hold.
	Fact bool
	Pos  Pos
}
