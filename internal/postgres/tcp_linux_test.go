package postgres_test

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/onceledger/onceledger/internal/postgres"
	"github.com/onceledger/onceledger/internal/postgres/pgtest"
)

func TestTheKernelGivesUpOnASilentServer(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t, stack.DatabaseURL, postgres.Owner)
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	tcp, ok := conn.Conn().PgConn().Conn().(*net.TCPConn)
	require.True(t, ok)
	require.Equal(t, 5*time.Second, userTimeout(t, tcp))

	var server string // reads the option of its own socket
	require.NoError(t, conn.QueryRow(t.Context(), `SHOW tcp_user_timeout`).Scan(&server))
	require.Equal(t, "5000", server)
}

func userTimeout(t *testing.T, conn *net.TCPConn) time.Duration {
	t.Helper()
	raw, err := conn.SyscallConn()
	require.NoError(t, err)
	var milliseconds int
	var failed error
	require.NoError(t, raw.Control(func(fd uintptr) {
		milliseconds, failed = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
	}))
	require.NoError(t, failed)
	return time.Duration(milliseconds) * time.Millisecond
}
