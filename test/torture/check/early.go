package check

import (
	"slices"
	"strings"

	"github.com/onceledger/onceledger/test/torture/client"
	"github.com/onceledger/onceledger/test/torture/traffic"
)

// transient are the reasons for which an event may be parked while harm is done,
// though it can be applied: they name what was harmed.
var transient = []string{"crash_budget", "retry_budget", "missing_parent"}

// Early looks at a state that has just come to rest, before anybody sends dead
// letters again, which could heal a loss. It returns what is lost or unexplained.
func Early(stream *traffic.Stream, acked map[client.Body]client.Acked, s *State) []string {
	v := &Verdict{}
	reasons := map[key]string{}
	for _, e := range stream.Events {
		reasons[key{source: e.Source, id: e.ID}] = e.Reason
	}
	for _, a := range acked {
		k := key{source: a.Event.Source, id: a.Event.ID}
		if _, ok := s.rows[k]; !ok && a.Acks > 0 && !a.Event.Keyless {
			v.lost("at first rest, event %s: accepted, and has no row", k)
		}
	}
	for k, r := range s.rows {
		ok := r.reason == reasons[k] || k.variant != "" && r.reason == "id_conflict" ||
			slices.Contains(transient, r.reason) || strings.HasPrefix(k.id, "generated/")
		if r.state == "failed" && !ok {
			v.odd("at first rest, event %s: %s, which nothing explains", k, r)
		}
	}
	for seq, l := range s.letters {
		if _, ok := s.rows[l.key]; !ok {
			v.lost("at first rest, letter %d of %s (%s): its event has no row", seq, l.key, l.reason)
		}
	}
	return slices.Concat(v.Lost, v.Unexplained)
}
