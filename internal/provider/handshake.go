package provider

import (
	"crypto/subtle"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/onceledger/onceledger/internal/jsondoc"
)

// maxChallenge bounds what is echoed.
const maxChallenge = 1024

// echo answers with what the provider sent, as text that no browser runs.
func echo(text string) Ack {
	if text == "" || len(text) > maxChallenge {
		return plainAck(http.StatusBadRequest, "the challenge is missing or too long\n")
	}
	return plainAck(http.StatusOK, text)
}

// members reads texts of a body, "" for what is absent or no text.
func members(body []byte, paths ...[]string) []string {
	doc, err := jsondoc.Scan(body, jsondoc.NewPaths(paths...))
	values := make([]string, len(paths))
	if err != nil {
		return values
	}
	for i, path := range paths {
		value, _ := jsondoc.Lookup(doc, path...)
		values[i], _ = value.(string)
	}
	return values
}

// slackHandshake echoes the challenge of url_verification.
func slackHandshake(_ *Source, req Request, verified bool) (Ack, bool) {
	if !verified {
		return Ack{}, false
	}
	got := members(req.Body, []string{"type"}, []string{"challenge"})
	if got[0] != "url_verification" {
		return Ack{}, false
	}
	return echo(got[1]), true
}

// zoomHandshake proves that we know the secret; Zoom asks again every 72 hours.
func zoomHandshake(s *Source, req Request, verified bool) (Ack, bool) {
	if !verified {
		return Ack{}, false
	}
	got := members(req.Body, []string{"event"}, []string{"payload", "plainToken"})
	if got[0] != "endpoint.url_validation" {
		return Ack{}, false
	}
	if got[1] == "" || len(got[1]) > maxChallenge {
		return echo(got[1]), true
	}
	key := s.scheme.(*mac).keys[0]
	hasher := key.Get().(*hasher)
	defer key.Put(hasher)
	answer, _ := json.Marshal(map[string]string{
		"plainToken":     got[1],
		"encryptedToken": hexText.encode(hasher.sum(template{bodyPart}, &signed{body: []byte(got[1])})),
	})
	return jsonAck(http.StatusOK, string(answer)), true
}

// tebexHandshake repeats the id of a validation.webhook.
func tebexHandshake(_ *Source, req Request, verified bool) (Ack, bool) {
	if !verified {
		return Ack{}, false
	}
	got := members(req.Body, []string{"type"}, []string{"id"})
	if got[0] != "validation.webhook" {
		return Ack{}, false
	}
	answer, _ := json.Marshal(map[string]string{"id": got[1]})
	return jsonAck(http.StatusOK, string(answer)), true
}

// metaHandshake echoes hub.challenge to whoever knows the verify token.
func metaHandshake(s *Source, req Request, _ bool) (Ack, bool) {
	if req.Method != http.MethodGet {
		return Ack{}, false
	}
	query, err := url.ParseQuery(req.Query)
	if err != nil || query.Get("hub.mode") != "subscribe" {
		return Ack{}, false
	}
	if s.token == "" || subtle.ConstantTimeCompare([]byte(query.Get("hub.verify_token")), []byte(s.token)) != 1 {
		return plainAck(http.StatusForbidden, "the verify token is another\n"), true
	}
	return echo(query.Get("hub.challenge")), true
}

// graphHandshake echoes the validationToken of a new subscription; such a
// request has no body that could be verified.
func graphHandshake(_ *Source, req Request, _ bool) (Ack, bool) {
	if req.Method != http.MethodPost || req.Query == "" {
		return Ack{}, false
	}
	query, err := url.ParseQuery(req.Query)
	if err != nil || !query.Has("validationToken") {
		return Ack{}, false
	}
	return echo(query.Get("validationToken")), true
}
