package postgres

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// setTCPUserTimeout lets the kernel give up on a peer that acknowledges nothing.
func setTCPUserTimeout(network, _ string, conn syscall.RawConn) error {
	if network == "unix" {
		return nil
	}
	var failed error
	err := conn.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(tcpUserTimeout.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return failed
}
