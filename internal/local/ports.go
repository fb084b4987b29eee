package local

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
)

// portTries bounds the search for a free port.
const portTries = 200

// ErrPortTaken is an address that another program listens on.
var ErrPortTaken = errors.New("another program listens there")

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

// Ports returns n different free addresses: first, or the next ports above it
// that nobody listens on.
func Ports(first string, n int) ([]string, error) {
	host, text, err := net.SplitHostPort(first)
	if err != nil {
		return nil, fmt.Errorf("find free ports: %w", err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return nil, fmt.Errorf("find free ports: %w", err)
	}
	var addresses []string
	for try := port; try < port+portTries && len(addresses) < n; try++ {
		if address := net.JoinHostPort(host, strconv.Itoa(try)); Free(address) == nil {
			addresses = append(addresses, address)
		}
	}
	if len(addresses) < n {
		return nil, fmt.Errorf("find free ports: fewer than %d from %s on", n, first)
	}
	return addresses, nil
}
