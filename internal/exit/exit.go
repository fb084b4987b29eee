// Package exit holds the exit codes that all programs of onceledger share, so
// that scripts and supervisors can tell what happened.
//
//	0  done
//	1  failed: something did not work this time
//	2  usage: wrong arguments, or a configuration with faults
//	3  refused to start: a person has to change something first
//	4  found: the command worked, and what it looked for is there (audit, trial
//	   balance, config check --against-stream)
package exit

import (
	"errors"
	"fmt"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/postgres"
	"github.com/onceledger/onceledger/internal/stream"
)

// The codes.
const (
	OK      = 0
	Failed  = 1
	Usage   = 2
	Refused = 3
	Found   = 4
)

// coded is an error that knows its exit code.
type coded struct {
	error
	code int
}

// Unwrap returns the error without its code.
func (c *coded) Unwrap() error { return c.error }

// With gives err an exit code; nil stays nil.
func With(code int, err error) error {
	if err == nil {
		return nil
	}
	return &coded{err, code}
}

// Usagef returns an error about the arguments of a command.
func Usagef(format string, args ...any) error {
	return With(Usage, fmt.Errorf(format, args...))
}

// Code returns the exit code for err: that of With, else what the error says by
// its kind.
func Code(err error) int {
	var c *coded
	var faults config.Faults
	switch {
	case err == nil:
		return OK
	case errors.As(err, &c):
		return c.code
	case errors.As(err, &faults):
		return Usage
	case errors.Is(err, stream.ErrRefused), errors.Is(err, postgres.ErrSchema), errors.Is(err, postgres.ErrDurability):
		return Refused
	}
	return Failed
}
