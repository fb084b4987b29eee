// Package stacktest runs the tests of a package against real services.
//
//	var stack *devstack.Stack
//
//	func TestMain(m *testing.M) { stacktest.Main(m, &stack, devstack.NATS) }
package stacktest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/onceledger/onceledger/internal/devstack"
)

// leakPatience is how long goroutines that are ending may take: a connection that
// was cut is given back within seconds, on a slow machine later.
const leakPatience = time.Minute

// Main starts the named services, or all three, in a temporary folder, stores
// the stack, runs the tests, stops everything and exits. It fails the package
// when a goroutine is left behind. Where a service is not installed, it skips
// the package, unless CI=true: there it fails.
func Main(m *testing.M, stack **devstack.Stack, only ...devstack.Kind) {
	devstack.Main()
	os.Exit(run(m, stack, only))
}

func run(m *testing.M, stack **devstack.Stack, only []devstack.Kind) int {
	ctx := context.Background()
	s, err := devstack.Start(ctx, devstack.Options{Small: true, Only: only})
	if errors.Is(err, devstack.ErrMissing) && os.Getenv("CI") != "true" {
		fmt.Println("SKIP: no test of this package was run:", err)
		return 0
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "FAIL:", err)
		return 1
	}
	*stack = s

	code := m.Run()
	if err := s.Stop(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "FAIL: stop services:", err)
		code = 1
	}
	// Only after a success: failed tests leave their goroutines where they stood.
	if code == 0 {
		if err := leaked(); err != nil {
			fmt.Fprintln(os.Stderr, "FAIL: goroutines are left behind:", err)
			code = 1
		}
	}
	return code
}

// leaked reports the goroutines that are left behind.
func leaked() error {
	for late := time.Now().Add(leakPatience); ; {
		if err := goleak.Find(); err == nil || time.Now().After(late) { // it waits a second itself
			return err
		}
	}
}
