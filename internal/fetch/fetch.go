// Package fetch asks a provider's API what a webhook only hints at: notices that
// say which object changed, but not how, or whose body nobody has signed.
//
// It guarantees that a hint makes it send nothing but a GET to the one host that
// the source is configured for, whatever the hint contains; and that what it
// returns of an answer is bytes of the API, with ids that name what they say, so
// that two hints about one state lead to one event.
//
//	client, faults := fetch.New(src, maxBody) // src.Fetch says how to ask
//	ask, err := client.Ask(hint)
//	facts, err := client.Facts(ctx, hint, ask)
//	switch {
//	case errors.Is(err, fetch.ErrUnavailable): // the API's fault: later
//	case errors.Is(err, fetch.ErrRefused):     // the hint's, or the configuration's
//	case errors.Is(err, fetch.ErrKind):        // nothing that is looked up
//	}
package fetch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/jsondoc"
	"github.com/onceledger/onceledger/internal/outbound"
	"github.com/onceledger/onceledger/pkg/envelope"
)

var (
	// ErrKind is a hint at a kind of object that nobody knows how to look up.
	ErrKind = errors.New("nothing is looked up for this kind of notice")
	// ErrRefused means that asking again brings the same: the hint names nothing,
	// the API does not let us in, or its answer is not what it documents.
	ErrRefused = errors.New("the provider's API does not tell")
	// ErrUnavailable means that the API has trouble of its own, or wants to be left
	// alone for a while.
	ErrUnavailable = errors.New("the provider's API is unavailable")
)

// Fetcher knows what the hints of one provider mean, and what its API answers. It
// has no state and is safe for concurrent use.
type Fetcher interface {
	// Ask says what to ask for. What it takes from the hint, which anybody may have
	// written, it escapes. Errors: ErrKind, ErrRefused.
	Ask(hint *envelope.Event) (Ask, error)
	// Facts says what an answer tells, in the order in which it happened. The
	// answer was checked to be JSON with one reading. Errors: ErrRefused.
	Facts(hint *envelope.Event, ask Ask, answer []byte) ([]Fact, error)
}

// Ask is what to ask an API for.
type Ask struct {
	// Path, below the API's URL and with its query, is escaped.
	Path   string
	Header http.Header
	// ID, with Account and Mode, names the only fact that the hint leads to, where
	// it says so; empty: the answer says.
	ID, Account, Mode string
	// object is the id that the answer must be about, and kind what it is of.
	object, kind string
}

// Fact is one event that an API tells of.
type Fact struct {
	// ID names the fact for good: the object, and the state where it has several.
	ID string
	// Type is the event type, in the words of the provider's own events.
	Type string
	// Mode is "live" or "test", Account the merchant's; empty: the hint's.
	Mode, Account string
	// Time is when it happened; zero: the API does not say.
	Time time.Time
	// Body is the part of the answer that tells it, as the API wrote it.
	Body []byte
}

// Client asks the API of one source. It is safe for concurrent use.
type Client struct {
	fetcher Fetcher
	base    string
	auth    authorizer
	http    *http.Client
	limit   int64
	mode    string // of what does not say
}

// New returns the client that src.Fetch describes, or its faults. maxBody bounds
// an answer, in bytes.
func New(src config.Source, maxBody int64) (*Client, []config.Fault) {
	path := "sources." + src.Name.Value + ".fetch"
	fault := func(pos config.Pos, key, format string, args ...any) []config.Fault {
		return []config.Fault{{Pos: pos, Path: path + key, Message: fmt.Sprintf(format, args...)}}
	}
	api, ok := apis[src.Provider.Value]
	if !ok {
		return nil, fault(src.Fetch.Pos, "", "nothing is looked up for provider %q; there are %s", src.Provider.Value, strings.Join(Names(), ", "))
	}
	base := cmp.Or(src.Fetch.URL.Value, api.url)
	if base == "" {
		return nil, fault(src.Fetch.Pos, ".url", "is needed: %s", api.wants)
	}
	target, err := url.Parse(base)
	if err != nil || target.RawQuery != "" || target.Fragment != "" {
		return nil, fault(src.Fetch.URL.Pos, ".url", "is not a URL without a query")
	}
	reach := outbound.Public
	if config.Loopback(target.Hostname()) {
		reach = outbound.Loopback
	}
	c := &Client{
		fetcher: api.fetcher, base: strings.TrimSuffix(base, "/"), limit: maxBody,
		http: outbound.Client(outbound.Options{Reach: reach, Timeout: src.Fetch.Timeout}),
	}
	if api.modal {
		c.mode = cmp.Or(src.Mode, "live")
	}
	if c.auth, err = api.auth(src.Fetch.Token.Reveal(), c); err != nil {
		return nil, fault(src.Fetch.Pos, ".token", "%v", err)
	}
	return c, nil
}

// Names returns the providers whose hints are looked up, sorted.
func Names() []string {
	names := make([]string, 0, len(apis))
	for name := range apis {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Ask says what to ask for.
func (c *Client) Ask(hint *envelope.Event) (Ask, error) { return c.fetcher.Ask(hint) }

// Facts asks, and says what the answer tells: at least one fact, each with an id
// of its own.
func (c *Client) Facts(ctx context.Context, hint *envelope.Event, ask Ask) ([]Fact, error) {
	answer, err := c.get(ctx, ask)
	if err != nil {
		return nil, err
	}
	if _, err := jsondoc.Scan(answer, nil); err != nil {
		return nil, fmt.Errorf("%w: read answer: %w", ErrRefused, err)
	}
	facts, err := c.fetcher.Facts(hint, ask, answer)
	if err != nil {
		return nil, err
	}
	if len(facts) == 0 {
		return nil, fmt.Errorf("%w: the answer tells of nothing", ErrRefused)
	}
	seen := map[string]bool{}
	for i, f := range facts {
		facts[i].Mode = cmp.Or(f.Mode, c.mode)
		if f.ID == "" || seen[f.ID] {
			return nil, fmt.Errorf("%w: the answer tells of two things under one id, or of one without", ErrRefused)
		}
		seen[f.ID] = true
	}
	return facts, nil
}

// Timeout is how long one question may take.
func (c *Client) Timeout() time.Duration { return c.http.Timeout }

// Close lets go of idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

func (c *Client) get(ctx context.Context, ask Ask) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+ask.Path, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: no request can be made of the notice", ErrRefused)
	}
	for name, values := range ask.Header {
		request.Header[name] = values
	}
	request.Header.Set("Accept", "application/json")
	if err := c.auth.authorize(ctx, request); err != nil {
		return nil, err
	}
	answer, err := c.do(request)
	if err != nil {
		return nil, err
	}
	if answer.Status == http.StatusUnauthorized {
		c.auth.refused()
	}
	return answer.Body, judge(answer.Status)
}

func (c *Client) do(request *http.Request) (*outbound.Answer, error) {
	answer, err := outbound.Do(c.http, request, c.limit)
	switch {
	case errors.Is(err, outbound.ErrTooLarge):
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return answer, nil
}

// judge says whose fault a status is. Too many requests, and whatever is not
// known to be about what was asked, are the API's.
func judge(status int) error {
	switch {
	case status == http.StatusOK:
		return nil
	case status == http.StatusTooManyRequests, status == http.StatusRequestTimeout, status == http.StatusTooEarly, status/100 == 5:
		return fmt.Errorf("%w: answered %d %s", ErrUnavailable, status, http.StatusText(status))
	}
	return fmt.Errorf("%w: answered %d %s", ErrRefused, status, http.StatusText(status))
}
