package devstack

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/redis/go-redis/v9"
)

// redisConf makes Redis the cache it is here: nothing on disk, and when full
// the claim that was used longest ago goes, which costs time and never money.
const redisConf = `# Written at every start.
bind %s
port %d
requirepass %s
dir %q
save ""
appendonly no
maxmemory 256mb
maxmemory-policy allkeys-lru
`

func (s *Stack) startRedis(ctx context.Context) error {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return fmt.Errorf("%w: redis (Debian: apt-get install redis-server; macOS: brew install redis), or set REDIS_URL", ErrMissing)
	}
	dir := filepath.Join(s.dir, "redis")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make redis folder: %w", err)
	}
	conf := filepath.Join(dir, "redis.conf")

	s.Redis, err = s.launch(ctx, func() (Command, error) {
		text := fmt.Sprintf(redisConf, loopback, s.state.RedisPort, s.state.Password, dir)
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			return Command{}, fmt.Errorf("write redis configuration: %w", err)
		}
		s.RedisURL = fmt.Sprintf("redis://:%s@%s:%d/0", s.state.Password, loopback, s.state.RedisPort)
		url := s.RedisURL
		return Command{
			Name:    "redis",
			Path:    binary,
			Args:    []string{conf},
			LogFile: filepath.Join(s.dir, "logs", "redis.log"),
			Ready:   func(ctx context.Context) error { return probeRedis(ctx, url) },
			lock:    s.lockPath(Redis),
		}, nil
	}, &s.state.RedisPort)
	return err
}

func probeRedis(ctx context.Context, url string) error {
	options, err := redis.ParseURL(url)
	if err != nil {
		return err
	}
	options.MaxRetries = -1
	client := redis.NewClient(options)
	defer client.Close()
	return client.Ping(ctx).Err()
}
