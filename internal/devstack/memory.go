package devstack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
)

// memorySize returns the bytes of memory this process may count on: the
// machine's, or the container's limit where that is lower.
func memorySize(ctx context.Context) (int64, error) {
	if runtime.GOOS != "linux" {
		out, err := exec.CommandContext(ctx, "sysctl", "-n", "hw.memsize").Output()
		if err != nil {
			return 0, fmt.Errorf("read hw.memsize: %w", err)
		}
		return strconv.ParseInt(string(bytes.TrimSpace(out)), 10, 64)
	}
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "MemTotal:" {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				return 0, fmt.Errorf("read MemTotal: %w", err)
			}
			return min(kib<<10, cgroupLimit()), nil
		}
	}
	return 0, errors.New("read /proc/meminfo: it has no MemTotal")
}

// cgroupLimit returns the container's memory limit, or the largest number.
func cgroupLimit() int64 {
	for _, path := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		if text, err := os.ReadFile(path); err == nil {
			if n, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64); err == nil && n > 0 {
				return n
			}
		}
	}
	return math.MaxInt64
}
