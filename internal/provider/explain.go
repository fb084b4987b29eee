package provider

import (
	"context"
	"time"
)

// Step is one thing that was looked at while a request was verified. No part of
// it holds a secret. An expected signature is worth as much as one, though, to
// whoever can send: it is for the eyes of those who have the secrets.
type Step struct {
	// What was looked at: "header X-Signature", "signed time", "secrets[0] (…)".
	What string
	// Verdict is empty (Seen) where nothing was decided.
	Verdict Verdict
	// Received is what the request has, and Expected what would have been right.
	Received, Expected string
	// Note says more, in words.
	Note string
	// Text is what is signed; nil for other steps.
	Text *Text
}

// Verdict is how a step turned out.
type Verdict string

// The verdicts. A wrong secret among several is no fault: one has to be right.
const (
	Seen  Verdict = ""
	Right Verdict = "right"
	Wrong Verdict = "wrong"
)

// Text is a text that is signed.
type Text struct {
	Start  string // its first 2 KiB, in whatever charset it is
	Bytes  int    // of the whole; 0: the secret is a part of it
	SHA256 string // of the whole, in hex
}

// Explanation is how the verdict on a request came about.
type Explanation struct {
	// Err is what Verify returns.
	Err error
	// Steps are in the order in which they were taken; the first that decides
	// against the request is the last, but for other secrets.
	Steps []Step
	// Signed is the time that the request says it was signed at, zero if none was read.
	Signed time.Time
	// Read names the headers that were read; Missing and Repeated those of them
	// that are not there once.
	Read, Missing, Repeated []string
}

// Explain is Verify with a record of what it looked at. It is for a person who
// asks why a request was refused; it copies what was signed.
func (s *Source) Explain(ctx context.Context, req Request, now time.Time) Explanation {
	t := &trace{masked: s.masked}
	req.trace = t
	t.Err = s.scheme.verify(ctx, req, now)
	return t.Explanation
}
