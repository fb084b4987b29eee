package provider

import "net/http"

// Request is what a webhook endpoint received, byte for byte. It is passed by
// value, so that verifying one allocates nothing.
type Request struct {
	Method string
	// Query is the raw query of the target as it was received, without the
	// question mark. Scheme, host and path are not here: a proxy hides what the
	// sender saw, so schemes that sign the URL take it from the configuration.
	Query  string
	Header http.Header
	Body   []byte

	trace *trace // of Explain; nil for Verify
}

// Post is the usual request: header and body, nothing in the query.
func Post(header http.Header, body []byte) Request {
	return Request{Method: http.MethodPost, Header: header, Body: body}
}

// single returns the one value of a header. A header given twice has two
// readings, and is refused.
func (r *Request) single(name string) (string, error) {
	r.trace.header(name, r.Header[name], false)
	return one(name, r.Header[name])
}

// hidden is single for a header that holds a secret.
func (r *Request) hidden(name string) (string, error) {
	r.trace.header(name, r.Header[name], true)
	return one(name, r.Header[name])
}

func one(name string, values []string) (string, error) {
	switch len(values) {
	case 0:
		return "", refuse("header %s is missing", name)
	case 1:
		return values[0], nil
	default:
		return "", refuse("header %s is given %d times", name, len(values))
	}
}

// Ack is an answer that a provider understands. ContentType and Body may be empty.
type Ack struct {
	Status      int
	ContentType string
	Body        []byte
}

func plainAck(status int, text string) Ack {
	return Ack{Status: status, ContentType: "text/plain; charset=utf-8", Body: []byte(text)}
}

func jsonAck(status int, text string) Ack {
	return Ack{Status: status, ContentType: "application/json", Body: []byte(text)}
}

func xmlAck(status int, text string) Ack {
	return Ack{Status: status, ContentType: "text/xml; charset=utf-8", Body: []byte(text)}
}
