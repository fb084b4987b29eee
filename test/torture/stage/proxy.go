package stage

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// Proxy is a cable between the programs of a kind and one service.
type Proxy struct {
	proxy *toxiproxy.Proxy
}

// startProxies lays a cable between each kind of program and what it uses. A
// cluster's clients find its servers by themselves, so that nothing can stand in
// between.
func (s *Stage) startProxies() error {
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	far := map[string]string{
		"worker-postgres": s.Addresses.DatabaseURL, "worker-redis": s.Addresses.RedisURL,
		"worker-nats": s.Addresses.NATSURL, "receiver-nats": s.Addresses.NATSURL,
	}
	// Ports of their own: those that systems choose might be a client's by the time
	// a cable is mended.
	near, err := ports(len(far))
	if err != nil {
		return err
	}
	for name, address := range far {
		if s.options.Cluster && strings.HasSuffix(name, "-nats") {
			continue
		}
		u, err := url.Parse(address)
		if err != nil {
			return fmt.Errorf("read address of %s: %w", name, err)
		}
		p := toxiproxy.NewProxy(server, name, near[0], u.Host)
		near = near[1:]
		if err := p.Start(); err != nil {
			return fmt.Errorf("start proxy %s: %w", name, err)
		}
		s.Proxies[name] = &Proxy{p}
	}
	return nil
}

// near is the proxy's own address in place of the service's.
func (s *Stage) near(name, address string) string {
	p := s.Proxies[name]
	u, err := url.Parse(address)
	if p == nil || err != nil {
		return address
	}
	u.Host = p.proxy.Listen
	return u.String()
}

// Cut ends all connections; new ones are refused until Mend.
func (p *Proxy) Cut() { p.proxy.Stop() }

// Mend ends every harm.
func (p *Proxy) Mend(ctx context.Context) error {
	p.proxy.Toxics.ResetToxics(ctx)
	if p.proxy.Enabled {
		return nil
	}
	if err := p.proxy.Start(); err != nil {
		return fmt.Errorf("mend proxy: %w", err)
	}
	return nil
}

// Delay lets every answer come later, by this many milliseconds, with jitter.
func (p *Proxy) Delay(milliseconds int) error {
	return p.toxic(fmt.Sprintf(`{"type":"latency","stream":"downstream","attributes":{"latency":%d,"jitter":%d}}`, milliseconds, milliseconds/2))
}

// Swallow lets nothing through, and leaves the connections open.
func (p *Proxy) Swallow() error {
	return p.toxic(`{"type":"timeout","stream":"downstream","attributes":{"timeout":0}}`)
}

func (p *Proxy) toxic(json string) error {
	if _, err := p.proxy.Toxics.AddToxicJson(strings.NewReader(json)); err != nil {
		return fmt.Errorf("harm proxy: %w", err)
	}
	return nil
}

func (p *Proxy) close() { p.proxy.Stop() }
