package explain

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/provider"
)

// maxURLs bounds the addresses that are tried: some 30 hosts and ports with a
// dozen paths. Each costs a verification.
const maxURLs = 2048

// urls looks for another address than url: has, where the provider signs it.
func (q *inquiry) urls() []Cause {
	known, _ := provider.Describe(q.src.Config.Provider.Value)
	if !takes(known, "url") {
		return nil
	}
	for _, address := range q.addresses() {
		src := q.src.Config
		src.URL = config.Text{Value: address}
		if q.with(src) {
			return []Cause{{
				Kind: "url",
				What: fmt.Sprintf("the provider signed another URL: with url: %s the signature is right, and the configuration has %s", address, q.src.Config.URL.Value),
				Do:   "write that URL in the configuration, as it is registered with the provider, not as a proxy passes it on",
			}}
		}
	}
	return nil
}

// addresses combine what the configuration and the request know of the URL.
func (q *inquiry) addresses() []string {
	scheme, rest, _ := strings.Cut(q.src.Config.URL.Value, "://")
	rest, query, _ := strings.Cut(rest, "?")
	host, path, _ := strings.Cut(rest, "/")
	h := q.request.Header

	schemes := distinct(scheme, "https", "http")
	hosts := distinct(host, q.captured.Host, h.Get("Host"), first(h.Get("X-Forwarded-Host")), h.Get("X-Original-Host"))
	for _, host := range slices.Clone(hosts) {
		bare := host
		if name, _, err := net.SplitHostPort(host); err == nil {
			bare = name
		}
		hosts = distinct(append(hosts, bare, bare+":443", bare+":80")...)
		if port := first(h.Get("X-Forwarded-Port")); port != "" {
			hosts = distinct(append(hosts, bare+":"+port)...)
		}
	}
	var paths []string
	given, _, _ := strings.Cut(h.Get("X-Original-Uri"), "?")
	for _, path := range distinct("/"+path, q.captured.Path, given, first(h.Get("X-Forwarded-Prefix"))+q.captured.Path) {
		paths = append(paths, path, strings.TrimRight(path, "/"), strings.TrimRight(path, "/")+"/")
	}
	queries := distinct(query, q.request.Query)
	queries = append(queries, "")

	var list []string
	for _, path := range distinct(append(paths, "/")...) {
		for _, host := range hosts {
			for _, scheme := range schemes {
				for _, query := range queries {
					address := scheme + "://" + host + path
					if query != "" {
						address += "?" + query
					}
					list = append(list, address)
				}
			}
		}
	}
	list = distinct(list...)
	return list[:min(len(list), maxURLs)]
}

// first is the value that the outermost proxy has written.
func first(list string) string {
	value, _, _ := strings.Cut(list, ",")
	return strings.TrimSpace(value)
}

// distinct returns the texts that are not empty, each once.
func distinct(texts ...string) []string {
	seen := map[string]bool{"": true}
	var list []string
	for _, text := range texts {
		if !seen[text] {
			seen[text] = true
			list = append(list, text)
		}
	}
	return list
}
