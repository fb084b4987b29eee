package local_test

import (
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/local"
)

func TestPortsSkipTakenOnes(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	first := taken.Addr().String()
	require.ErrorIs(t, local.Free(first), local.ErrPortTaken)

	var ports local.Ports
	last := taken.Addr().(*net.TCPAddr).Port
	addresses, err := ports.TakeMany(first, 2)
	require.NoError(t, err)
	require.Len(t, addresses, 2)
	another, err := ports.Take(first)
	require.NoError(t, err)
	for _, address := range append(addresses, another) {
		_, port, err := net.SplitHostPort(address)
		require.NoError(t, err)
		n, err := strconv.Atoi(port)
		require.NoError(t, err)
		require.Greater(t, n, last, "none is given out twice")
		last = n
	}
}

func TestBadAddressesAreErrors(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"8080", "127.0.0.1:http-ish", "127.0.0.1:"} {
		_, err := new(local.Ports).Take(address)
		require.ErrorContains(t, err, "find a free port", address)
	}
	err := local.Free("nowhere.invalid:1")
	require.ErrorContains(t, err, "listen on nowhere.invalid:1")
	require.NotErrorIs(t, err, local.ErrPortTaken)
}
