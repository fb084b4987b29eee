package ledger

import (
	"fmt"
	"slices"
)

// Refusal says why a posting or a correction is refused, and wraps the error that it
// is refused for. As the ledger gives it, it names operations by their keys, events by
// their numbers, and amounts in minor units: what a program finds them by. Named
// makes it one for people.
type Refusal struct {
	why    error
	format string
	args   []any
	// assets and events are the names of a Refusal for people.
	people bool
	assets *Assets
	events map[int64]string
}

// What a Refusal names, beside text.
type (
	named   string // an operation
	eventNo int64
	money   struct {
		amount int64
		asset  string
	}
)

func refuse(why error, format string, args ...any) *Refusal {
	return &Refusal{why: why, format: format, args: args}
}

func (t Transfer) money() money { return money{t.Amount, t.Asset} }

// Events are the numbers of the events that are named.
func (r *Refusal) Events() []int64 {
	var numbers []int64
	for _, arg := range r.args {
		if no, ok := arg.(eventNo); ok && !slices.Contains(numbers, int64(no)) {
			numbers = append(numbers, int64(no))
		}
	}
	return numbers
}

// Named returns r for people: operations as FormatKey shows them, events by these
// names, and amounts as "12.50 USD". An event without a name keeps its number, and an
// amount its minor units where the asset is neither of ISO 4217 nor among assets.
func (r *Refusal) Named(assets *Assets, events map[int64]string) *Refusal {
	said := *r
	said.people, said.assets, said.events = true, assets, events
	return &said
}

func (r *Refusal) Error() string {
	said := make([]any, len(r.args))
	for i, arg := range r.args {
		said[i] = r.say(arg)
	}
	return r.why.Error() + ": " + fmt.Sprintf(r.format, said...)
}

// Unwrap returns the error that the posting is refused for.
func (r *Refusal) Unwrap() error { return r.why }

// say names what is no plain text.
func (r *Refusal) say(arg any) any {
	switch arg := arg.(type) {
	case named:
		if r.people {
			return FormatKey(string(arg))
		}
	case eventNo:
		if name := r.events[int64(arg)]; name != "" {
			return name
		}
		return fmt.Sprintf("event %d", arg)
	case money:
		asset, ok := r.assets.Lookup(arg.asset)
		switch {
		case !r.people:
			return fmt.Sprintf("%d %s", arg.amount, arg.asset)
		case !ok:
			return fmt.Sprintf("%d %s (minor units)", arg.amount, arg.asset)
		}
		return FormatMinor(arg.amount, asset.Exponent) + " " + arg.asset
	}
	return arg
}
