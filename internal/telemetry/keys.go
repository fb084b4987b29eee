package telemetry

// The keys of log lines. They are a public interface: people search and alert
// by them, so a key is added here and never renamed.
const (
	KeyProgram    = "program"
	KeyVersion    = "version"
	KeyAddress    = "address"
	KeyReason     = "reason"
	KeyHint       = "hint"
	KeyDuration   = "duration"
	KeyCount      = "count"
	KeySkipped    = "skipped"
	KeyStatus     = "status"
	KeyRemote     = "remote"
	KeySource     = "source"
	KeyEventID    = "event_id"
	KeyEventType  = "event_type"
	KeyAccount    = "account"
	KeyOperation  = "operation"
	KeyStream     = "stream"
	KeySubject    = "subject"
	KeySequence   = "sequence"
	KeyAttempt    = "attempt"
	KeyBytes      = "bytes"
	KeyServer     = "server"
	KeyDurability = "durability"
)
