package keyring

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"time"
)

// unknownEvery is how old a set of keys must be before an id that is not in it
// makes it be fetched again: so often a stream of made-up ids can make us ask.
const unknownEvery = time.Minute

// maxID bounds the id of a key in bytes.
const maxID = 256

// set is a list of keys that a provider publishes at one place.
type set struct {
	keys document[map[string]crypto.PublicKey]
}

func newSet(o Options, load func(context.Context) (loaded[map[string]crypto.PublicKey], error)) *set {
	s := &set{}
	s.keys.now = o.Now
	s.keys.load = func(ctx context.Context) (loaded[map[string]crypto.PublicKey], error) {
		got, err := load(ctx)
		if err != nil {
			// The place is ours to know, not the sender's: nothing is proven against it.
			return got, fmt.Errorf("fetch keys: %w: %v", ErrUnavailable, err) //nolint:errorlint // what it wraps may say refused
		}
		return got, nil
	}
	return s
}

// Key implements Keys.
func (s *set) Key(ctx context.Context, id string) (crypto.PublicKey, error) {
	if id == "" || len(id) > maxID {
		return nil, fmt.Errorf("find key: %w: its id has %d bytes", ErrRefused, len(id))
	}
	keys, err := s.keys.get(ctx)
	if err != nil {
		return nil, fmt.Errorf("find key: %w", err)
	}
	if key, ok := keys[id]; ok {
		return key, nil
	}
	if keys, err = s.keys.renew(ctx, unknownEvery); err != nil {
		return nil, fmt.Errorf("find key: %w", err)
	}
	if key, ok := keys[id]; ok {
		return key, nil
	}
	return nil, fmt.Errorf("find key: %w: the provider publishes none with this id", ErrRefused)
}

// Fixed is a set of keys that were given, and never change.
type Fixed map[string]crypto.PublicKey

// Key implements Keys.
func (f Fixed) Key(_ context.Context, id string) (crypto.PublicKey, error) {
	if key, ok := f[id]; ok {
		return key, nil
	}
	return nil, fmt.Errorf("find key: %w: none with this id is configured", ErrRefused)
}

// Either finds a key in any of several places, asked in their order: WeChat Pay
// signs with its public key or with a certificate while a merchant moves from one
// to the other.
type Either []Keys

// Key implements Keys. A place that cannot say makes the answer unavailable,
// unless another one has the key.
func (e Either) Key(ctx context.Context, id string) (crypto.PublicKey, error) {
	err := fmt.Errorf("find key: %w: no key is configured", ErrRefused)
	for _, keys := range e {
		key, failed := keys.Key(ctx, id)
		if failed == nil {
			return key, nil
		}
		if !errors.Is(err, ErrUnavailable) {
			err = failed
		}
	}
	return nil, err
}
