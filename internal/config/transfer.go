package config

import (
	"slices"
	"time"
)

// maxExpires is the longest that a hold may last.
const maxExpires = 365 * 24 * time.Hour

// transfers is a list of transfers whose keys fit each other.
func transfers(target *[]Transfer) field {
	f := items(target, maxTransfers, transferKeys)
	f.read = func(r *reader, v value) {
		r.list(v, maxTransfers, func(item value) {
			var t Transfer
			if seen := r.object(item, transferKeys(&t, item.at)); seen != nil {
				checkTransfer(r, item, &t, seen)
			}
			*target = append(*target, t)
		})
	}
	return f
}

// checkTransfer wants what moves or holds money to say which, and each key of a hold
// where it means something.
func checkTransfer(r *reader, v value, t *Transfer, seen map[string]Pos) {
	has := func(name string) bool { _, ok := seen[name]; return ok }
	if slices.ContainsFunc(r.faults, func(f Fault) bool { return f.Path == join(v.path, "hold") }) {
		return // nobody knows what it is
	}
	kinds := slices.DeleteFunc([]string{"hold", "captures", "voids"}, func(name string) bool { return !has(name) || name == "hold" && !t.Hold })
	if len(kinds) > 1 {
		r.fault(seen[kinds[1]], join(v.path, kinds[1]), "cannot stand beside %s: write two transfers", kinds[0])
		return
	}
	kind := append(kinds, "")[0]
	for _, name := range []string{"amount", "asset", "credit", "debit"} {
		switch {
		case kind == "voids" && has(name):
			r.fault(seen[name], join(v.path, name), "has no place beside voids: what is left of the hold is released")
		case kind != "voids" && !has(name):
			r.fault(v.at, v.path, "key %q is missing", name)
		}
	}
	if kind == "hold" && !has("expires") {
		r.fault(v.at, v.path, "key %q is missing: say how long the hold lasts, for example 168h", "expires")
	}
	for _, rule := range []struct{ name, needs string }{{"expires", "hold"}, {"final", "captures"}, {"fact", "captures"}} {
		if has(rule.name) && kind != rule.needs {
			r.fault(seen[rule.name], join(v.path, rule.name), "has a meaning beside %s alone", rule.needs)
		}
	}
	if has("running_total") && !has("refunds") {
		r.fault(seen["running_total"], join(v.path, "running_total"), "has a meaning beside refunds alone")
	}
	for _, name := range []string{"parent", "refunds"} {
		if kind != "" && has(name) && (kind != "hold" || name == "refunds") {
			r.fault(seen[name], join(v.path, name), "cannot stand beside %s", kind)
		}
	}
}
