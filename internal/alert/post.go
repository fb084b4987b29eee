package alert

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/outbound"
	"github.com/onceledger/onceledger/internal/telemetry"
)

const (
	// postTimeout bounds one try, from dialling to the end of the answer.
	postTimeout = 10 * time.Second
	// maxAnswer is how much of an answer is read, to use its connection again.
	maxAnswer = 4 << 10
)

// newClient returns a client that goes where cfg allows and nowhere else.
func newClient(cfg config.Alerts) *http.Client {
	target, _ := url.Parse(cfg.URL.Reveal()) // the configuration has checked it
	reach := outbound.Public
	switch {
	case target != nil && config.Loopback(target.Hostname()):
		reach = outbound.Loopback
	case cfg.Network == "private":
		reach = outbound.Private
	}
	return outbound.Client(outbound.Options{Reach: reach, Timeout: postTimeout})
}

// post sends a conflict once. Its errors do not show the URL.
func (s *Sender) post(ctx context.Context, l *letter) error {
	body, err := l.body()
	if err != nil {
		return fmt.Errorf("write alert: %w", err)
	}
	signed, err := s.signer.Sign(body, l.id, time.Now())
	if err != nil {
		return fmt.Errorf("sign alert: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return errors.New("build request: alerts.url is not usable")
	}
	request.Header = signed.Header
	request.Header.Set("User-Agent", "onceledger/"+telemetry.Version())
	response, err := s.client.Do(request)
	if err != nil {
		if errors.Is(err, outbound.ErrAddress) {
			return fmt.Errorf("post alert: %w: it is not public; set alerts.network to private where that is meant", outbound.ErrAddress)
		}
		return fmt.Errorf("post alert: %w", outbound.WithoutURL(err))
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, maxAnswer)) // the status says it all
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("post alert: answered %s", response.Status)
	}
	return nil
}
