package operator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/internal/provider"
	"github.com/onceledger/onceledger/pkg/dlq"
)

const (
	// sendTimeout bounds one request; the receiver answers 503 long before.
	sendTimeout = 30 * time.Second
	// answerBytes bounds what is shown of an answer.
	answerBytes = 4 << 10
)

// Sending says what to send and where.
type Sending struct {
	Source string
	// Body is a file with the body, "-" for standard input; empty makes the Sample.
	Body string
	// Sample is what a made-up event is to hold; At is set here.
	Sample provider.Sample
	// URL of the receiver; empty takes the stack's or the configuration's.
	URL string
	// Repeat is how often the same bytes are sent, at least once.
	Repeat int
}

// Sent is one answer.
type Sent struct {
	URL     string  `json:"url"`
	EventID string  `json:"event_id,omitempty"`
	Bytes   int     `json:"bytes"`
	Status  int     `json:"status"`
	Answer  string  `json:"answer"`
	Seconds float64 `json:"seconds"`
}

// Send signs a test event as its provider would, sends it, and prints what the
// receiver answers. An answer other than 2xx is an error.
func Send(ctx context.Context, s *Session, in io.Reader, sending Sending) error {
	cat, err := s.Catalog()
	if err != nil {
		return err
	}
	src, ok := cat.Sources[sending.Source]
	if !ok {
		return exit.Usagef("source %q is not in %s; it has %s", sending.Source, cat.Config.File,
			strings.Join(slices.Sorted(maps.Keys(cat.Sources)), ", "))
	}
	event, err := sending.event(in, src)
	if err != nil {
		return err
	}
	target, err := s.target(sending, cat)
	if err != nil {
		return err
	}
	request, err := sign(src, event)
	if err != nil {
		return err
	}
	// The id as the receiver keys it: it may stand in a body that came from a file.
	as := src.Events(request, time.Now())[0]
	if as.Fault == "" {
		event.key = as.ID
	}
	refused := 0
	for range max(sending.Repeat, 1) {
		sent, err := post(ctx, target, src, event)
		if err != nil {
			return fmt.Errorf("send event: %w\nis a receiver listening at %s? `onceledger up` starts one", err, target)
		}
		if sent.Status < 200 || sent.Status > 299 {
			refused++
		}
		if err := s.printSent(sent); err != nil {
			return err
		}
	}
	if refused > 0 {
		return fmt.Errorf("the receiver refused %d of %s", refused, count(max(sending.Repeat, 1), "request"))
	}
	switch {
	case s.JSON:
	case as.Fault == string(dlq.NeedsFetch) && src.Fetch != nil:
		fmt.Fprintf(s.Out, "\nit says what to look up and no more: a worker asks the provider's API, and posts what that says\n")
	case as.Fault == string(dlq.NeedsFetch):
		fmt.Fprintf(s.Out, "\nit says what to look up and no more (%s): without fetch: in its source it will be parked: %s dlq list --source %s%s\n",
			as.Fault, s.command(), sending.Source, s.where())
	case event.key == "":
		fmt.Fprintf(s.Out, "\nits id cannot be read (%s), so it will be parked: %s dlq list --source %s%s\n", as.Fault, s.command(), sending.Source, s.where())
	default:
		fmt.Fprintf(s.Out, "\nwhat became of it: %s event show %s %s%s\n", s.command(), sending.Source, printable(event.key), s.where())
	}
	return nil
}

// target is the source's webhook address.
func (s *Session) target(sending Sending, cat *catalog.Catalog) (string, error) {
	base := sending.URL
	switch {
	case base != "":
	case s.Data != "":
		stack, err := s.addresses()
		if err != nil {
			return "", err
		}
		if stack.ReceiverURL == "" {
			return "", fmt.Errorf("the stack in %s runs no receiver; name one with --url", s.Data)
		}
		base = stack.ReceiverURL
	default:
		host, port, err := net.SplitHostPort(cat.Config.Receiver.Listen)
		if err != nil {
			return "", fmt.Errorf("read receiver.listen: %w", err)
		}
		if host == "" || host == "0.0.0.0" || host == "::" {
			host = "127.0.0.1"
		}
		base = "http://" + net.JoinHostPort(host, port)
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" {
		return "", exit.Usagef("--url %q is not an address such as http://127.0.0.1:8080", base)
	}
	if strings.Contains(u.Path, "/webhooks/") {
		return base, nil
	}
	return u.JoinPath("webhooks", sending.Source).String(), nil
}

// sign returns the request as the provider would send it now.
func sign(src *catalog.Source, event *sampled) (provider.Request, error) {
	request, err := src.Sign(event.body, event.id, time.Now())
	if err != nil {
		return provider.Request{}, err
	}
	maps.Copy(request.Header, event.header)
	return request, nil
}

// masked are the values of a query, among which may be a token that is a secret.
var masked = regexp.MustCompile(`=[^&]*`)

func post(ctx context.Context, target string, src *catalog.Source, event *sampled) (*Sent, error) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	signed, err := sign(src, event)
	if err != nil {
		return nil, err
	}
	shown := target
	if signed.Query != "" {
		target += "?" + signed.Query
		shown += "?" + masked.ReplaceAllString(signed.Query, "=…")
	}
	req, err := http.NewRequestWithContext(ctx, signed.Method, target, bytes.NewReader(signed.Body))
	if err != nil {
		return nil, err
	}
	req.Header = signed.Header
	client := &http.Client{
		Transport: &http.Transport{DisableKeepAlives: true},
		// A webhook sender follows no redirect: it would lose the body.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	began := time.Now()
	res, err := client.Do(req)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return nil, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, answerBytes))
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	return &Sent{
		URL: shown, EventID: event.key, Bytes: len(signed.Body),
		Status: res.StatusCode, Answer: string(answer), Seconds: time.Since(began).Seconds(),
	}, nil
}

func (s *Session) printSent(sent *Sent) error {
	if s.JSON {
		return s.object(sent)
	}
	fmt.Fprintf(s.Out, "POST %s (%d bytes%s)\n%d %s in %.1f ms", sent.URL, sent.Bytes, eventWord(sent.EventID),
		sent.Status, http.StatusText(sent.Status), sent.Seconds*1000)
	if answer := strings.TrimSpace(sent.Answer); answer != "" {
		fmt.Fprint(s.Out, ": ", printable(answer))
	}
	fmt.Fprintln(s.Out)
	return nil
}

func eventWord(id string) string {
	if id == "" {
		return ""
	}
	return ", event " + printable(id)
}
