package fault

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// cache empties Redis, saves it, or takes it back to what was saved.
func (i *Injector) cache(ctx context.Context, kind Kind) error {
	client, err := i.Stage.Redis()
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	switch kind {
	case Flush:
		err = client.FlushAll(ctx).Err()
	case Snapshot:
		err = client.Save(ctx).Err()
		i.redis = i.redis || err == nil
	case Rollback:
		if !i.redis {
			return fmt.Errorf("%w: there is no snapshot yet", errSkipped)
		}
		redis := i.Stage.Members["redis"]
		if err := redis.Kill(); err != nil {
			return err
		}
		i.killed("redis")
		return start(ctx, redis)
	default:
		return fmt.Errorf("unknown fault %q", kind)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errSkipped, err)
	}
	return nil
}

// database copies Postgres' data, or puts the copy back: what a person does after
// the loss of a disk. The server is stopped meanwhile.
func (i *Injector) database(ctx context.Context, kind Kind) error {
	postgres, data := i.Stage.Members["postgres"], i.Stage.PostgresData()
	from, to := data, data+".backup"
	if kind == Restore {
		from, to = to, from
		if _, err := os.Stat(from); err != nil {
			return fmt.Errorf("find the backup: %w", err)
		}
	}
	if err := stop(ctx, postgres); err != nil {
		return err
	}
	if err := os.RemoveAll(to); err != nil {
		return fmt.Errorf("make room: %w", err)
	}
	if out, err := exec.CommandContext(ctx, "cp", "-a", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("copy database: %w: %s", err, out)
	}
	return start(ctx, postgres)
}
