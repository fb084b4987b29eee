package explain

import (
	"bytes"
	"fmt"
	"strings"
)

// hints say what is suspicious of a request whose cause was not found.
func (q *inquiry) hints() []string {
	data := q.request.Body
	var list []string
	add := func(suspicious bool, format string, args ...any) {
		if suspicious {
			list = append(list, fmt.Sprintf(format, args...))
		}
	}
	n, announced := q.captured.announced()
	add(announced && len(q.captured.Body) < n, "the body is cut off: %d of %d bytes are here, and the signature covers them all", len(q.captured.Body), n)
	add(len(data) == 0, "there is no body: did something read it before, or is the empty line missing after the headers?")
	add(strings.HasPrefix(string(data), "[object "), "the body is what JavaScript writes for an object that it does not serialise: pass the raw body on")
	add(bytes.Contains(data, []byte("\uFFFD")), "the body holds U+FFFD: bytes that were no UTF-8 were replaced, and what stood there is lost")
	add(bytes.Contains(data, []byte("??")), "the body holds \"??\": characters that a charset does not have may have been replaced, and are lost")
	add(bytes.HasPrefix(bytes.TrimLeft(data, "{["), []byte("\n")), "the body is indented: few providers send that, so it may have been parsed and printed")
	add(len(q.first.Missing) > 0, "a header is missing that every request of this provider has: did a proxy drop it, or is it no request of this provider's?")
	if len(list) == 0 {
		list = append(list, q.remains())
	}
	return list
}

// remains says what is left when nothing is suspicious.
func (q *inquiry) remains() string {
	switch c := q.src.Config; {
	case c.WebhookID.Value != "":
		return "what remains is another webhook_id, or another body: compare the id with the one that the provider shows for this endpoint"
	case len(c.Secrets) == 0:
		return "what remains is another public key, or another body: compare the keys' fingerprints with what the provider publishes; test and live mode differ"
	case c.Provider.Value == "stripe":
		return "what remains is another secret, or another body: each endpoint has its own, test and live mode differ, and `stripe listen` prints one of its own"
	}
	return "what remains is another secret, or another body: compare the secret with what the provider shows for this very endpoint; test and live mode differ"
}
