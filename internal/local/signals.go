package local

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/onceledger/onceledger/internal/devstack"
)

// signalExit plus the signal's number is the exit code of a second signal, as
// shells have it.
const signalExit = 128

// Guard ends children that must not outlive this process: it is told of each
// one, and kills them all when a second signal comes. On Linux the kernel would
// do the same a moment later.
type Guard struct {
	mu       sync.Mutex
	children []*devstack.Process
	folders  []string
}

// Add tells the guard of processes; a nil one, of a service that a URL replaced,
// is left out.
func (g *Guard) Add(children ...*devstack.Process) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, child := range children {
		if child != nil {
			g.children = append(g.children, child)
		}
	}
}

// Remove tells the guard of a folder that must not outlive this process either.
func (g *Guard) Remove(folder string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.folders = append(g.folders, folder)
}

// kill ends all children with SIGKILL, and then removes the folders. It keeps the lock, so that none is added
// any more.
func (g *Guard) kill() {
	g.mu.Lock()
	var all sync.WaitGroup
	for _, child := range g.children {
		all.Go(func() {
			if err := child.Kill(); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		})
	}
	all.Wait()
	for _, folder := range g.folders {
		if err := os.RemoveAll(folder); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}

// Interruptible returns a context that the first Ctrl-C, SIGTERM or SIGHUP ends,
// which is the time to stop in order. The second kills the children and exits
// at once. stop returns signals to what they did before.
func (g *Guard) Interruptible(ctx context.Context) (interruptible context.Context, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	done := make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() {
		for count := 1; ; count++ {
			select {
			case sig := <-signals:
				if count > 1 {
					g.kill()
					os.Exit(signalExit + int(sig.(syscall.Signal)))
				}
				cancel()
			case <-done:
				return
			}
		}
	})
	return ctx, sync.OnceFunc(func() {
		signal.Stop(signals)
		close(done)
		watcher.Wait()
		cancel()
	})
}
