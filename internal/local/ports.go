package local

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"syscall"

	"github.com/onceledger/onceledger/internal/devstack"
)

// portTries bounds the search for a free port.
const portTries = 200

// ErrPortTaken is an address that another program listens on.
var ErrPortTaken = devstack.ErrPortTaken

// Free returns ErrPortTaken unless somebody could listen on address.
func Free(address string) error {
	l, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("listen on %s: %w", address, ErrPortTaken)
	case err != nil:
		return fmt.Errorf("listen on %s: %w", address, err)
	}
	return l.Close()
}

// Chosen returns address, with a port that is free in place of port 0.
func Chosen(address string) (string, error) {
	if _, port, err := net.SplitHostPort(address); err != nil || port != "0" {
		return address, nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return "", fmt.Errorf("listen on %s: %w", address, err)
	}
	return l.Addr().String(), l.Close()
}

// Ports chooses addresses for children. It gives none out twice, but another
// program may still take one before the child listens there: see StartAnywhere.
// The zero value is ready; it is safe for concurrent use.
type Ports struct {
	mu    sync.Mutex
	given map[string]bool
}

// Take returns first, or the same with the next port above it that nobody listens
// on and that was not given out before.
func (p *Ports) Take(first string) (string, error) {
	host, text, err := net.SplitHostPort(first)
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for try := port; try < port+portTries; try++ {
		address := net.JoinHostPort(host, strconv.Itoa(try))
		if !p.given[address] && Free(address) == nil {
			if p.given == nil {
				p.given = map[string]bool{}
			}
			p.given[address] = true
			return address, nil
		}
	}
	return "", fmt.Errorf("find a free port: none from %s on", first)
}

// TakeMany is Take for n addresses.
func (p *Ports) TakeMany(first string, n int) ([]string, error) {
	addresses := make([]string, n)
	for i := range addresses {
		var err error
		if addresses[i], err = p.Take(first); err != nil {
			return nil, err
		}
	}
	return addresses, nil
}
