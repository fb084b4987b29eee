package contender

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/rs/zerolog"

	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/provider"
)

const (
	// storeLimit is how long a sender is kept waiting.
	storeLimit = 20 * time.Second
	// drainLimit bounds the answers under way at the end.
	drainLimit  = 25 * time.Second
	headerLimit = 5 * time.Second
)

// charge is what a contender keeps of an event.
type charge struct {
	ID       string `json:"id" river:"unique"`
	Customer string `json:"customer"`
	Amount   int64  `json:"amount"`
	Currency string `json:"currency"`

	body []byte
}

// errNoCharge is an event that asks for no transfer.
var errNoCharge = errors.New("not a charge with an id, a customer and an amount")

func readCharge(body []byte) (charge, error) {
	var event struct {
		ID   string `json:"id"`
		Type string `json:"type"`
		Data struct {
			Object struct {
				Customer string `json:"customer"`
				Amount   int64  `json:"amount"`
				Currency string `json:"currency"`
			} `json:"object"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &event); err != nil {
		return charge{}, fmt.Errorf("read event: %w", err)
	}
	object := event.Data.Object
	if event.Type != "charge.succeeded" || event.ID == "" || object.Customer == "" || object.Amount <= 0 {
		return charge{}, errNoCharge
	}
	return charge{ID: event.ID, Customer: object.Customer, Amount: object.Amount, Currency: object.Currency, body: body}, nil
}

// serve answers until ctx ends. Without a store it only says that it is ready.
func serve(ctx context.Context, cat *catalog.Catalog, log zerolog.Logger, store store) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /readyz", func(http.ResponseWriter, *http.Request) {})
	if store != nil {
		for name, source := range cat.Sources {
			mux.Handle("POST /webhooks/"+name, webhooks(source, cat.Config.Receiver.MaxBody, log, store))
		}
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", cat.Config.Receiver.Listen)
	if err != nil {
		return fmt.Errorf("listen for webhooks: %w", err)
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: headerLimit}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve webhooks: %w", err)
	case <-ctx.Done():
	}
	draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainLimit)
	defer cancel()
	if err := server.Shutdown(draining); err != nil {
		return fmt.Errorf("drain webhooks: %w", err)
	}
	return nil
}

// webhooks answers 2xx to what store has stored, and to nothing else.
func webhooks(source *catalog.Source, maxBody int64, log zerolog.Logger, store store) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if err := source.Verify(r.Context(), provider.Post(r.Header, body), time.Now()); err != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		c, err := readCharge(body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), storeLimit)
		defer cancel()
		if err := store(ctx, c); err != nil {
			log.Warn().Err(err).Msg("not stored")
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
}
