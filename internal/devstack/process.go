package devstack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const (
	// readyPoll is how often a starting process is asked whether it is ready.
	readyPoll = 15 * time.Millisecond
	// startLimit ends the wait for a process that never becomes ready.
	startLimit = time.Minute
	// reapLimit bounds the wait for a killed process and its children to vanish.
	reapLimit = 20 * time.Second
	// logTail is how much of a log an error quotes.
	logTail = 2048
)

// ErrPortTaken is an address that another program listens on.
var ErrPortTaken = errors.New("another program listens there")

// errExited is a process that ended before it was ready.
var errExited = errors.New("exited before it was ready")

// Command describes a child process.
type Command struct {
	// Name is used in errors.
	Name string
	Path string
	Args []string
	// Env is the whole environment; nil is this process's own.
	Env []string
	// Dir is the working folder; empty is this process's own.
	Dir string
	// LogFile receives standard output and error, appended; empty discards them.
	LogFile string
	// StopSignal is what Stop sends; 0 is SIGTERM.
	StopSignal syscall.Signal
	// Ready is asked again and again until it returns nil; nil: ready once started.
	Ready func(ctx context.Context) error

	// lock is a file that stays locked while any process of the command lives.
	lock string
	// account is whom the process runs as; nil is this process's own.
	account *account
	// prepare runs when the lock is held and nothing of an earlier run lives.
	prepare func() error
}

// Process is a running child. On Linux it dies with this process, however that
// ends; elsewhere only Stop or Kill ends it. It has a process group of its own,
// so that Ctrl-C in a terminal reaches it only through its owner.
type Process struct {
	command Command
	cmd     *exec.Cmd
	done    chan struct{}
}

// StartProcess starts c and returns when it is ready. ctx bounds the start
// alone: the process lives until Stop or Kill. An early exit is reported with
// the end of its log; it is also ErrPortTaken where the process says there that
// an address is in use. Nobody else knows: a look at the port comes too late
// where whoever had it is gone again.
func StartProcess(ctx context.Context, c Command) (*Process, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()

	p := &Process{command: c, done: make(chan struct{})}
	logStart, err := p.spawn(ctx)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	if err := p.awaitReady(ctx); err != nil {
		tail := p.tail(logStart)
		if errors.Is(err, errExited) && strings.Contains(strings.ToLower(tail), syscall.EADDRINUSE.Error()) {
			err = fmt.Errorf("%w (%w)", err, ErrPortTaken)
		}
		return nil, errors.Join(fmt.Errorf("start %s: %w%s", c.Name, err, tail), p.Kill())
	}
	return p, nil
}

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed once the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// ExitCode returns the exit code, or -1 while the process runs and when a
// signal ended it.
func (p *Process) ExitCode() int {
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	default:
		return -1
	}
}

// State says how the process ended, "exit status 1" or "signal: killed", or that
// it is running.
func (p *Process) State() string {
	select {
	case <-p.done:
		return p.cmd.ProcessState.String()
	default:
		return "running"
	}
}

// Signal sends sig to the process alone; one that has ended is no error.
func (p *Process) Signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s: %w", p.command.Name, err)
	}
	return nil
}

// Stop asks the process to end and waits for it and its children. When ctx ends
// first, the process is killed and the error says so.
func (p *Process) Stop(ctx context.Context) error {
	sig := p.command.StopSignal
	if sig == 0 {
		sig = syscall.SIGTERM
	}
	if err := errors.Join(p.Signal(sig), p.Resume()); err != nil {
		return err
	}
	select {
	case <-p.done:
		return p.awaitGone()
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("stop %s: killed, as it did not end in time: %w", p.command.Name, ctx.Err()), p.Kill())
	}
}

// Kill ends the process and its children at once with SIGKILL and waits until
// they are gone.
func (p *Process) Kill() error {
	// Stopped first, so that it forks no child between the look and the kill.
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	children := p.children()
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	signalAll(children, syscall.SIGKILL)
	select {
	case <-p.done:
		return p.awaitGone()
	case <-time.After(reapLimit):
		return fmt.Errorf("kill %s: process %d is still there", p.command.Name, p.PID())
	}
}

// Pause freezes the process and its children, as a hung machine would.
func (p *Process) Pause() error {
	err := p.Signal(syscall.SIGSTOP)
	signalAll(p.children(), syscall.SIGSTOP)
	return err
}

// Resume lets a paused process and its children go on.
func (p *Process) Resume() error {
	signalAll(p.children(), syscall.SIGCONT)
	return p.Signal(syscall.SIGCONT)
}

// spawn starts the process and returns the size its log had before.
func (p *Process) spawn(ctx context.Context) (logStart int64, err error) {
	c := p.command
	p.cmd = exec.Command(c.Path, c.Args...)
	p.cmd.Env, p.cmd.Dir = c.Env, c.Dir
	p.cmd.SysProcAttr = sysProcAttr(c.account)

	if c.LogFile != "" {
		log, err := os.OpenFile(c.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return 0, fmt.Errorf("open log: %w", err)
		}
		defer log.Close()
		if logStart, err = log.Seek(0, io.SeekEnd); err != nil {
			return 0, fmt.Errorf("measure log: %w", err)
		}
		p.cmd.Stdout, p.cmd.Stderr = log, log
	}
	if c.lock != "" {
		lock, err := lockFile(ctx, c.lock)
		if err != nil {
			return 0, fmt.Errorf("wait for an earlier %s to end: %w", c.Name, err)
		}
		defer lock.Close()
		// The child and all its descendants inherit the lock with the descriptor.
		p.cmd.ExtraFiles = []*os.File{lock}
	}
	if c.prepare != nil {
		if err := c.prepare(); err != nil {
			return 0, err
		}
	}

	started := make(chan error, 1)
	go p.run(started)
	return logStart, <-started
}

// run starts the process and reaps it. The kernel sends the parent-death signal
// when the *thread* that forked ends, so one thread is held for the child's life.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	err := p.cmd.Start()
	started <- err
	if err == nil {
		_ = p.cmd.Wait() // the outcome is read from ProcessState
	}
	close(p.done)
}

func (p *Process) awaitReady(ctx context.Context) error {
	if p.command.Ready == nil {
		return nil
	}
	// What it asks may be another program, which never answers.
	asking, stopAsking := context.WithCancel(ctx)
	defer stopAsking()
	go func() {
		select {
		case <-p.done:
			stopAsking()
		case <-asking.Done():
		}
	}()
	poll := time.NewTicker(readyPoll)
	defer poll.Stop()
	for {
		err := p.command.Ready(asking)
		select {
		case <-p.done:
			return fmt.Errorf("%w (%s)", errExited, p.cmd.ProcessState)
		default:
		}
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
		case <-poll.C:
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w (%w)", err, ctx.Err())
		}
	}
}

// awaitGone returns once no descendant holds the command's lock any more.
func (p *Process) awaitGone() error {
	if p.command.lock == "" {
		return nil
	}
	if err := awaitUnlocked(context.Background(), p.command.lock); err != nil {
		return fmt.Errorf("wait for the children of %s: %w", p.command.Name, err)
	}
	return nil
}

func (p *Process) children() []int {
	select {
	case <-p.done:
		return nil
	default:
		return childrenOf(p.PID())
	}
}

// tail returns the end of the log written since offset, indented.
func (p *Process) tail(offset int64) string {
	if p.command.LogFile == "" {
		return ""
	}
	log, err := os.ReadFile(p.command.LogFile)
	if err != nil || int64(len(log)) <= offset {
		return ""
	}
	log = log[max(offset, int64(len(log))-logTail):]
	lines := strings.ReplaceAll(string(bytes.TrimSpace(log)), "\n", "\n  ")
	return fmt.Sprintf("; %s ends with:\n  %s", filepath.Base(p.command.LogFile), lines)
}

func signalAll(pids []int, sig syscall.Signal) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, sig) // one that ended meanwhile needs no signal
	}
}
