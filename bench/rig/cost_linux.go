package rig

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// tick is the kernel's unit in /proc: USER_HZ is 100 on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// times returns the CPU time of each process with all its children, those that
// have ended included.
func times(pids map[string]int) map[string]time.Duration {
	used := map[string]time.Duration{}
	for name, pid := range pids {
		if own, ok := processTime(pid); ok {
			used[name] = own
		}
	}
	return used
}

func processTime(pid int) (time.Duration, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false
	}
	// The name, in parentheses, may hold spaces; utime is the 12th field after it.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 15 {
		return 0, false
	}
	sum := ticks(fields[11:15]) // utime, stime, and both of children that ended
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for _, child := range strings.Fields(string(children)) {
		if id, err := strconv.Atoi(child); err == nil {
			own, _ := processTime(id)
			sum += own
		}
	}
	return sum, true
}

// machineTime is the time all cores were busy since the machine started.
func machineTime() time.Duration {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	fields := bytes.Fields(line) // cpu user nice system idle iowait irq softirq steal …
	if len(fields) < 9 {
		return 0
	}
	return ticks(fields[1:4]) + ticks(fields[6:9])
}

func ticks(fields [][]byte) time.Duration {
	var sum time.Duration
	for _, field := range fields {
		n, _ := strconv.ParseInt(string(field), 10, 64)
		sum += time.Duration(n) * tick
	}
	return sum
}

// wrote is how many bytes a process and its children gave to the disk, those that
// have ended included.
func wrote(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return 0
	}
	sum := field(text, "write_bytes:")
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for _, child := range strings.Fields(string(children)) {
		if id, err := strconv.Atoi(child); err == nil {
			sum += wrote(id)
		}
	}
	return sum
}

// flushes is how often the disk below a folder was told to keep what it has, 0 where
// the folder is on none.
func flushes(dir string) int64 {
	info, err := os.Stat(dir)
	if err != nil {
		return 0
	}
	held, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	device := fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(held.Dev), unix.Minor(held.Dev))
	if _, err := os.Stat(device + "/partition"); err == nil {
		device += "/.." // which counts for all of its partitions
	}
	text, _ := os.ReadFile(device + "/stat")
	fields := bytes.Fields(text)
	const flushed = 15 // see Documentation/block/stat.rst of Linux
	if len(fields) <= flushed {
		return 0
	}
	n, _ := strconv.ParseInt(string(fields[flushed]), 10, 64)
	return n
}

// status is a size in bytes of a process.
func status(pid int, name string) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	return field(text, name) << 10 // given in kB
}

// forgetPeak sets the peak of a process's memory to what it has now.
func forgetPeak(pid int) {
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0o600) // else the peak is an older one
}

// field finds a number by what stands before it in its line.
func field(text []byte, name string) int64 {
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte(name)); ok {
			number, _, _ := bytes.Cut(bytes.TrimSpace(rest), []byte(" "))
			n, _ := strconv.ParseInt(string(number), 10, 64)
			return n
		}
	}
	return 0
}
