//go:build !linux

package postgres

import "syscall"

// setTCPUserTimeout needs Linux; elsewhere keep-alives find a dead peer.
func setTCPUserTimeout(string, string, syscall.RawConn) error { return nil }
