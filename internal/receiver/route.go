package receiver

import "strings"

// prefix is the first segment of every webhook's path.
const prefix = "webhooks"

// route returns the source that path names: /webhooks/{source}, with a slash at
// its end or not. Repeated slashes count as one and are never redirected:
// senders take a redirect for a failure, or turn the POST into a GET.
func route(path string) (source string, ok bool) {
	rest, rooted := strings.CutPrefix(path, "/")
	if !rooted {
		return "", false
	}
	head, rest, _ := strings.Cut(strings.TrimLeft(rest, "/"), "/")
	source, rest, _ = strings.Cut(strings.TrimLeft(rest, "/"), "/")
	if head != prefix || source == "" || strings.Trim(rest, "/") != "" {
		return "", false
	}
	return source, true
}
