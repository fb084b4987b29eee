package devstack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	lockName = "lock"
	// lockWait lets a stack that is just ending finish.
	lockWait = 500 * time.Millisecond
)

// ErrInUse is a data folder in which another stack runs.
var ErrInUse = errors.New("a stack is running in this data folder")

// Free returns ErrInUse if a stack runs in dir.
func Free(dir string) error {
	lock, err := lockDir(dir)
	if err != nil {
		return err
	}
	return lock.Close()
}

// lockDir makes dir this process's until the returned file is closed.
func lockDir(dir string) (*os.File, error) {
	path := filepath.Join(dir, lockName)
	ctx, cancel := context.WithTimeout(context.Background(), lockWait)
	defer cancel()
	lock, err := lockFile(ctx, path)
	if errors.Is(err, context.DeadlineExceeded) {
		owner, _ := os.ReadFile(path) // only to say who it is
		return nil, fmt.Errorf("%w: %s (process %s)", ErrInUse, dir, strings.TrimSpace(string(owner)))
	}
	if err != nil {
		return nil, fmt.Errorf("lock data folder: %w", err)
	}
	if err := os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("lock data folder: %w", err), lock.Close())
	}
	return lock, nil
}

// lockPath is the file that a service's processes keep locked.
func (s *Stack) lockPath(kind Kind) string {
	return filepath.Join(s.dir, string(kind)+".lock")
}

// awaitUnlocked returns once nobody holds the lock on path.
func awaitUnlocked(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, reapLimit)
	defer cancel()
	lock, err := lockFile(ctx, path)
	if err != nil {
		return err
	}
	return lock.Close()
}

// lockFile takes an exclusive lock on path, waiting until ctx ends. It lives
// with the descriptor and everything that inherited it.
func lockFile(ctx context.Context, path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	poll := time.NewTicker(readyPoll)
	defer poll.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(err, f.Close())
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("%s is locked: %w", path, ctx.Err()), f.Close())
		}
	}
}
