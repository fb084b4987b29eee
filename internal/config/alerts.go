package config

import (
	"encoding/base64"
	"errors"
	"net/netip"
	"net/url"
	"strings"
)

// A secret of Standard Webhooks has so many bytes.
const (
	minAlertSecret = 24
	maxAlertSecret = 64
)

// checkOutbound wants a URL that requests are sent to: https, or http to this
// machine. Its errors do not show the URL, which may hold a token.
func checkOutbound(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "":
		return errors.New("is not a URL like https://host/path")
	case u.User != nil:
		return errors.New("holds a user or a password, which are not sent")
	case u.Scheme == "https", u.Scheme == "http" && Loopback(u.Hostname()):
		return nil
	}
	return errors.New("must start with https://, or with http:// and an address of this machine")
}

func checkAlertSecret(text string) error {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(text, "whsec_"))
	if err != nil || len(key) < minAlertSecret || len(key) > maxAlertSecret {
		return errors.New("is not whsec_ and the base64 of 24 to 64 random bytes")
	}
	return nil
}

// Loopback reports whether host names this machine itself.
func Loopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}
