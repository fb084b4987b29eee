package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/onceledger/onceledger/internal/provider"
)

// headers looks for headers that were renamed, repeated or decorated.
func (q *inquiry) headers() []Cause {
	if found := q.renamed(); found != nil {
		return found
	}
	for _, name := range q.first.Repeated {
		for _, value := range q.request.Header[name] {
			if ok, late := q.rightNow(withHeader(q.request, name, value)); ok {
				return append([]Cause{{
					Kind: "header",
					What: fmt.Sprintf("header %s is given %d times, and with one of its values alone the signature is right", name, len(q.request.Header[name])),
					Do:   "a proxy or a test tool adds it again: let it pass on what came, and nothing more",
				}}, late...)
			}
		}
	}
	for _, name := range q.first.Read {
		for _, value := range q.request.Header[name] {
			for _, plain := range decorated(value) {
				if ok, late := q.rightNow(withHeader(q.request, name, plain.value)); ok {
					return append([]Cause{{
						Kind: "header",
						What: fmt.Sprintf("the value of header %s was changed: %s, the signature is right", name, plain.what),
						Do:   "let what stands before the receiver pass the header on as it came",
					}}, late...)
				}
			}
		}
	}
	return nil
}

// decoration is a header's value without what may have been added to it.
type decoration struct{ value, what string }

func decorated(value string) []decoration {
	var list []decoration
	add := func(plain, what string) {
		if plain != value {
			list = append(list, decoration{plain, what})
		}
	}
	add(strings.TrimSpace(value), "without the white space around it")
	add(strings.Trim(value, `"'`), "without the quotes around it")
	first, _, _ := strings.Cut(value, ", ")
	add(first, "with its first part alone, before the comma")
	first, _, _ = strings.Cut(value, ",")
	add(first, "with its first part alone, before the comma")
	add(strings.ReplaceAll(value, " ", "+"), "with plus signs for its spaces")
	return list
}

// renamed puts headers under the names that are missing: first those that have
// nearly the name, then any.
func (q *inquiry) renamed() []Cause {
	req, e := q.request, q.first
	var renames []string
	for len(e.Missing) > 0 {
		name := e.Missing[0]
		from := similar(q.request, name)
		if from == "" {
			return q.misplaced(req, name)
		}
		req = withHeader(req, name, q.request.Header[from][0])
		renames = append(renames, fmt.Sprintf("%s as %s", name, from))
		e = q.src.Explain(q.ctx, req, q.at)
		q.tried++
	}
	if len(renames) == 0 {
		return nil
	}
	ok, late := q.rightNow(req)
	if !ok {
		return nil
	}
	return append([]Cause{{
		Kind: "header",
		What: "what the provider sends under one name came under another: " + strings.Join(renames, ", "),
		Do:   "let the proxy or gateway before the receiver pass headers on under their own names",
	}}, late...)
}

// misplaced tries every header in the place of the one that is missing.
func (q *inquiry) misplaced(req provider.Request, name string) []Cause {
	for _, from := range slices.Sorted(maps.Keys(q.request.Header)) {
		for _, value := range q.request.Header[from] {
			if ok, late := q.rightNow(withHeader(req, name, value)); ok {
				return append([]Cause{{
					Kind: "header",
					What: fmt.Sprintf("header %s is missing, and %s holds what belongs there", name, from),
					Do:   "let the proxy or gateway before the receiver pass the header on under its own name, or check that the source's provider is the right one",
				}}, late...)
			}
		}
	}
	return nil
}

// similar returns a header whose name only lacks or adds what gateways do:
// HTTP_X_SIGNATURE, X-Original-X-Signature, X-Amzn-Remapped-Authorization.
func similar(req provider.Request, name string) string {
	const least = 8 // letters, so that "Id" is like nothing else
	wanted := letters(name)
	for _, other := range slices.Sorted(maps.Keys(req.Header)) {
		have := letters(other)
		if other != name && (strings.HasSuffix(have, wanted) || len(have) >= least && strings.HasSuffix(wanted, have)) {
			return other
		}
	}
	return ""
}

// letters are the letters and digits of a header's name, in lower case.
func letters(name string) string {
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(name))
}

// rightNow is right for a request whose changed header may hold the signed time.
func (q *inquiry) rightNow(req provider.Request) (ok bool, late []Cause) {
	if q.right(q.src.Source, req) {
		return true, nil
	}
	e := q.src.Explain(q.ctx, req, q.at)
	if e.Signed.IsZero() || e.Signed.Equal(q.at) || q.src.Verify(q.ctx, req, e.Signed) != nil {
		return false, nil
	}
	if cause := q.late(e.Signed); cause != nil {
		cause.What = "besides, " + cause.What
		late = append(late, *cause)
	}
	return true, late
}
