package fetch

import (
	"fmt"
	"time"
)

// gather collects facts, and keeps the first fault.
type gather struct {
	mode  string
	facts []Fact
	err   error
}

// add adds a fact whose id is made of parts.
func (g *gather) add(body document, typ string, at time.Time, parts ...string) {
	id, err := join(parts...)
	if g.err == nil {
		g.err = err
	}
	g.facts = append(g.facts, Fact{ID: id, Type: typ, Mode: g.mode, Time: at, Body: body.raw})
}

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrRefused, fmt.Sprintf(format, args...))
}
