package operator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/internal/explain"
	"github.com/onceledger/onceledger/internal/provider"
)

// verifyTimeout bounds what is tried, and the keys that have to be fetched for it.
const verifyTimeout = 60 * time.Second

// Verifying says which captured request to explain.
type Verifying struct {
	Source string
	// Request is a file with the request, "-" for standard input; see explain.Parse.
	Request string
	// At is when it was received, as ParseSince reads it; empty is now.
	At string
}

// Verified is what became of a captured request. Nothing of it holds a secret;
// an expected signature is as good as one for whoever can send that very body.
type Verified struct {
	Source   string `json:"source"`
	Provider string `json:"provider"`
	// Verdict is passes, refused, or unavailable: it cannot be judged now.
	Verdict string `json:"verdict"`
	Error   string `json:"error,omitempty"`

	At        time.Time       `json:"at"`
	Signed    *time.Time      `json:"signed_at,omitempty"`
	Method    string          `json:"method"`
	Path      string          `json:"path"`
	Bytes     int             `json:"bytes"`
	SHA256    string          `json:"sha256"`
	Notes     []string        `json:"notes,omitempty"`
	Steps     []VerifiedStep  `json:"steps,omitempty"`
	Causes    []VerifiedCause `json:"causes,omitempty"`
	Hints     []string        `json:"hints,omitempty"`
	Tried     int             `json:"tried,omitempty"`
	Handshake bool            `json:"handshake,omitempty"`
	Status    int             `json:"status"`
	Answer    string          `json:"answer,omitempty"`
	Events    []VerifiedEvent `json:"events,omitempty"`
}

// VerifiedStep is one step of a verification.
type VerifiedStep struct {
	What     string `json:"what"`
	Verdict  string `json:"verdict,omitempty"` // right, wrong, or empty
	Received string `json:"received,omitempty"`
	Expected string `json:"expected,omitempty"`
	Note     string `json:"note,omitempty"`
	// Text begins what is signed; Base64 stands in its place where it is no UTF-8.
	Text   string `json:"text,omitempty"`
	Base64 []byte `json:"text_base64,omitempty"`
	Bytes  int    `json:"text_bytes,omitempty"`
	SHA256 string `json:"text_sha256,omitempty"`
}

// VerifiedCause is a proven cause of a refusal.
type VerifiedCause struct {
	Kind string `json:"kind"`
	What string `json:"what"`
	Do   string `json:"do"`
}

// VerifiedEvent is an event as it would be stored.
type VerifiedEvent struct {
	ID      string    `json:"id"`
	Type    string    `json:"type,omitempty"`
	Account string    `json:"account,omitempty"`
	Mode    string    `json:"mode,omitempty"`
	Time    time.Time `json:"time"`
	Bytes   int       `json:"bytes"`
	Fault   string    `json:"fault,omitempty"`
}

// Verify explains step by step why a captured request passes or fails, and prints
// it. A request that does not pass is an error, too.
func Verify(ctx context.Context, s *Session, in io.Reader, v Verifying) error {
	now := time.Now()
	at, err := ParseTime("--at", v.At, now)
	if err != nil {
		return err
	}
	if at.IsZero() {
		at = now
	}
	cat, err := s.Catalog()
	if err != nil {
		return err
	}
	src, ok := cat.Sources[v.Source]
	if !ok {
		return exit.Usagef("source %q is not in %s; it has %s", v.Source, cat.Config.File,
			strings.Join(slices.Sorted(maps.Keys(cat.Sources)), ", "))
	}
	captured, err := v.read(in, explain.FileLimit(cat.Config.Receiver.MaxBody))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	out := verified(src, captured, explain.Explain(ctx, cat, v.Source, captured, at), secretsOf(cat.Config))
	if err := s.printVerified(out); err != nil {
		return err
	}
	switch out.Verdict {
	case passes:
		return nil
	case unavailable:
		return fmt.Errorf("source %s cannot judge this request now: %s", v.Source, out.Error)
	}
	return fmt.Errorf("source %s refuses this request", v.Source)
}

// The verdicts.
const (
	passes      = "passes"
	refused     = "refused"
	unavailable = "unavailable"
)

// read reads the captured request, up to limit bytes.
func (v *Verifying) read(in io.Reader, limit int64) (*explain.Captured, error) {
	if v.Request != "-" {
		file, err := os.Open(v.Request)
		if err != nil {
			return nil, exit.Usagef("read request: %w", err)
		}
		defer file.Close()
		in = file
	}
	data, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read request: %w", err)
	}
	if int64(len(data)) > limit {
		return nil, exit.Usagef("read request: it has more than %d bytes, which no request with a body within receiver.max_body has", limit)
	}
	return explain.Parse(data)
}

func verified(src *catalog.Source, c *explain.Captured, r *explain.Report, hide *strings.Replacer) *Verified {
	sum := sha256.Sum256(r.Request.Body)
	out := &Verified{
		Source: src.Config.Name.Value, Provider: src.Config.Provider.Value, Verdict: passes,
		At: r.At.UTC().Truncate(time.Second), Method: c.Method, Path: hide.Replace(c.Path),
		Bytes: len(r.Request.Body), SHA256: hex.EncodeToString(sum[:]),
		Notes: r.Notes, Hints: r.Hints, Tried: r.Tried, Handshake: r.Handshake, Status: r.Answer.Status,
	}
	if r.Handshake || r.Err == nil {
		out.Answer = hide.Replace(string(r.Answer.Body))
	}
	if r.Err != nil {
		out.Verdict, out.Error = refused, strings.TrimPrefix(r.Err.Error(), "verify request: ")
		if errors.Is(r.Err, provider.ErrUnavailable) {
			out.Verdict = unavailable
		}
	}
	if !r.Signed.IsZero() {
		signed := r.Signed.UTC()
		out.Signed = &signed
	}
	for _, step := range r.Steps {
		out.Steps = append(out.Steps, verifiedStep(step, hide))
	}
	for _, cause := range r.Causes {
		out.Causes = append(out.Causes, VerifiedCause(cause))
	}
	for _, event := range r.Events {
		out.Events = append(out.Events, VerifiedEvent{
			ID: hide.Replace(event.ID), Type: hide.Replace(event.Type), Account: hide.Replace(event.Account), Mode: event.Mode,
			Time: event.Time, Bytes: len(event.Data), Fault: event.Fault,
		})
	}
	return out
}

func verifiedStep(step provider.Step, hide *strings.Replacer) VerifiedStep {
	out := VerifiedStep{
		What: step.What, Verdict: string(step.Verdict), Note: step.Note,
		Received: hide.Replace(step.Received), Expected: hide.Replace(step.Expected),
	}
	if step.Text != nil {
		text := hide.Replace(step.Text.Start)
		out.Bytes, out.SHA256 = step.Text.Bytes, step.Text.SHA256
		if utf8.ValidString(text) {
			out.Text = text
		} else {
			out.Base64 = []byte(text)
		}
	}
	return out
}
