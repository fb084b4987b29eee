package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/onceledger/onceledger/test/torture/breakage"
	"github.com/onceledger/onceledger/test/torture/check"
	"github.com/onceledger/onceledger/test/torture/client"
	"github.com/onceledger/onceledger/test/torture/fault"
	"github.com/onceledger/onceledger/test/torture/report"
	"github.com/onceledger/onceledger/test/torture/stage"
	"github.com/onceledger/onceledger/test/torture/traffic"
)

const (
	receivers, workers = 2, 3
	// readyLimit bounds the return of everything once no more harm is done.
	readyLimit = 2 * time.Minute
	// restLimit bounds the time until nothing waits any more: what nothing comes
	// for is sent again a minute later.
	restLimit = 4 * time.Minute
	// sendLimit is how much longer than the harm the sending may last.
	sendLimit = 6 * time.Minute
	// brokenRestLimit is for a product broken on purpose, which may never rest.
	brokenRestLimit = 40 * time.Second
)

// options are one run's.
type options struct {
	seed   uint64
	length time.Duration
	plan   string // mixed, cluster or restore
	rate   int
	out    string
	broken *breakage.Breakage // nil: as it is
	race   bool
}

// faults is the plan of the run.
func (o options) faults() fault.Plan {
	f := fault.Options{Length: o.length, Receivers: receivers, Workers: workers, Cluster: o.plan == "cluster", Restore: o.plan == "restore"}
	if o.broken != nil {
		f.Certain = o.broken.ShownBy
	}
	return fault.NewPlan(o.seed, f)
}

// run is one run of a plan.
type run struct {
	options
	began   time.Time
	stage   *stage.Stage
	traffic *traffic.Stream
	report  *report.Report

	mu  sync.Mutex
	log *os.File
}

// torture plays a plan and returns its report. An error means that the run did
// not come to its end; whether the system held is in the report.
func torture(ctx context.Context, o options) (*report.Report, error) {
	r := &run{options: o, began: time.Now(), traffic: traffic.New(o.seed, o.rate)}
	var err error
	if r.log, err = os.Create(filepath.Join(o.out, "run.log")); err != nil {
		return nil, fmt.Errorf("make log: %w", err)
	}
	defer r.log.Close()
	plan := o.faults()
	if err := os.WriteFile(filepath.Join(o.out, "plan.txt"), []byte(plan.String()), 0o600); err != nil {
		return nil, fmt.Errorf("write plan: %w", err)
	}
	r.report = &report.Report{Seed: o.seed, Plan: o.plan, Started: r.began.UTC(), Seconds: o.length.Seconds(), Rate: o.rate, Faults: len(plan), Version: version(ctx)}
	r.say("%s plan, seed %d: %d faults in %s, %d deliveries/s; everything is kept in %s", o.plan, o.seed, len(plan), o.length, o.rate, o.out)
	overlay := ""
	if o.broken != nil {
		r.report.Broken = o.broken.Name
		r.say("broken on purpose: %s", o.broken.What)
		if overlay, err = r.breakIt(ctx); err != nil {
			return nil, err
		}
	}
	r.stage, err = stage.Open(ctx, stage.Options{
		Out: o.out, Receivers: receivers, Workers: workers, Cluster: o.plan == "cluster", Overlay: overlay, Race: o.race, Say: r.say,
	})
	if err == nil {
		r.say("started %d receivers, %d workers and their services", receivers, workers)
		err = r.play(ctx, plan)
	}
	return r.report, r.end(ctx, err)
}

// end stops everything; what a run has left is removed if it held.
func (r *run) end(ctx context.Context, err error) error {
	err = errors.Join(err, r.stage.Close(context.WithoutCancel(ctx)))
	if err == nil && len(r.report.Faulty()) == 0 {
		err = r.stage.Remove()
	}
	return err
}

// breakIt writes the changed sources, and returns what the compiler needs.
func (r *run) breakIt(ctx context.Context) (overlay string, err error) {
	root, err := stage.Root(ctx)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(r.out, "broken")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", fmt.Errorf("make folder: %w", err)
	}
	return r.broken.Overlay(root, dir)
}

// play does the harm while the senders send, heals everything, and looks.
func (r *run) play(ctx context.Context, plan fault.Plan) error {
	history, err := os.Create(filepath.Join(r.out, "history.txt"))
	if err != nil {
		return fmt.Errorf("make history: %w", err)
	}
	defer history.Close()
	senders := &client.Senders{URLs: r.stage.URLs, Secrets: r.stage.Secrets, Rate: r.rate, History: history}
	injector := &fault.Injector{Stage: r.stage, Say: r.say, Deadly: r.traffic.Deadly}

	limited, cancel := context.WithTimeout(ctx, r.length+sendLimit)
	defer cancel()
	group, running := errgroup.WithContext(limited)
	var sent client.Result
	group.Go(func() (err error) {
		sent, err = senders.Run(running, r.traffic.Next)
		return err
	})
	group.Go(func() error {
		defer r.traffic.Finish()
		if err := injector.Run(running, plan); err != nil {
			return err
		}
		r.say("no more harm is done")
		for _, proxy := range r.stage.Proxies {
			if err := proxy.Mend(running); err != nil {
				return err
			}
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		return err
	}
	r.report.Sent, r.report.Points = sent, injector.Points()
	r.say("%d deliveries in %d tries are answered", sent.Deliveries, sent.Tries)

	healed := time.Now()
	if err := r.settle(ctx, sent); err != nil {
		return err
	}
	r.report.Count(injector.Done(), injector.Kills(), r.stage.Ends())
	r.report.Rest = time.Since(healed)
	return r.look(ctx, sent)
}

// settle waits until nothing waits any more, and sends the dead letters again
// until only those are left that nothing can apply: twice, since the parent of
// one may be another.
func (r *run) settle(ctx context.Context, sent client.Result) error {
	ready, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	if err := r.stage.Ready(ready); err != nil {
		return err
	}
	for pass := range 2 {
		if err := r.rest(ctx); err != nil || r.report.Stuck != "" {
			return err
		}
		if pass == 0 {
			if err := r.lookEarly(ctx, sent); err != nil {
				return err
			}
		}
		out, err := r.stage.Command(ctx, "last", "dlq", "redrive", "--all", "--yes", "--rate", "5000", "--note", "torture, at the end").CombinedOutput()
		if err != nil {
			return fmt.Errorf("redrive what is parked: %w\n%s", err, out)
		}
	}
	if err := r.rest(ctx); err != nil || r.report.Stuck != "" {
		return err
	}
	return r.tidy(ctx)
}

// lookEarly asks what the letters that are sent again could heal. After a restore
// the sweep has to find first what the database does not know.
func (r *run) lookEarly(ctx context.Context, sent client.Result) error {
	if r.plan == "restore" {
		if err := r.swept(ctx); err != nil {
			return err
		}
	}
	state, err := r.read(ctx)
	if err != nil {
		return err
	}
	r.report.Parked = state.Parked()
	if r.plan != "restore" { // whose letters may be of rows that the backup did not have
		r.report.Early = check.Early(r.traffic, sent.Acked, state)
	}
	return nil
}

// swept waits until nothing that was answered is without an outcome any more.
func (r *run) swept(ctx context.Context) error {
	for until := time.Now().Add(restLimit); time.Now().Before(until); <-time.After(time.Second) {
		if err := r.audit(ctx); err != nil {
			return err
		}
		if r.report.Audit.Sum.Unaccounted == 0 {
			return r.rest(ctx)
		}
	}
	r.report.Stuck = fmt.Sprintf("%d deliveries are not sent again", r.report.Audit.Sum.Unaccounted)
	return nil
}

// tidy lets the operator's command meet the letters that a redrive or a worker
// which died left behind. It deletes them, as the workers do once an hour: their
// events are decided, and have other letters or none.
func (r *run) tidy(ctx context.Context) error {
	state, err := r.read(ctx)
	if err != nil {
		return err
	}
	stale := state.Unnamed()
	r.report.Stale = len(stale)
	for len(stale) > 0 {
		n := min(len(stale), 100)
		args := []string{"dlq", "redrive", "--yes", "--note", "torture, stale"}
		for _, seq := range stale[:n] {
			args = append(args, strconv.FormatUint(seq, 10))
		}
		// It fails, since it sent nothing; what it did not delete is found.
		out, _ := r.stage.Command(ctx, "last", args...).CombinedOutput()
		r.say("stale letters: %s", bytes.TrimSpace(out))
		stale = stale[n:]
	}
	return r.rest(ctx)
}

func (r *run) read(ctx context.Context) (*check.State, error) {
	conn, err := r.stage.Postgres(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the ledger: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // nothing was written
	return check.Read(ctx, conn, r.stage.JS())
}

// rest waits until the stream has been answered for and no row waits. What does
// not come to rest is a finding, and no error.
func (r *run) rest(ctx context.Context) error {
	conn, err := r.stage.Postgres(ctx)
	if err != nil {
		return fmt.Errorf("look at rows: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // nothing was written
	var waiting int
	stuck, limit := "", restLimit
	if r.broken != nil {
		limit = brokenRestLimit
	}
	patience := newPatience(limit, time.Now())
	for ; ; <-time.After(200 * time.Millisecond) {
		events, err := r.stage.JS().Stream(ctx, "EVENTS")
		if err != nil {
			return fmt.Errorf("look at the stream: %w", err)
		}
		consumer, err := events.Consumer(ctx, "worker")
		if err != nil {
			return fmt.Errorf("look at the consumer: %w", err)
		}
		info, last := consumer.CachedInfo(), events.CachedInfo().State.LastSeq
		// A consumer that was just made says that nothing is pending.
		pending := max(info.NumPending, last-min(last, info.Delivered.Stream))
		err = conn.QueryRow(ctx, `SELECT count(*) FROM events WHERE state IN ('pending', 'processing') OR state = 'failed' AND dlq_seq IS NULL`).Scan(&waiting)
		if err != nil {
			return fmt.Errorf("look at rows: %w", err)
		}
		if pending == 0 && info.NumAckPending == 0 && waiting == 0 {
			return nil
		}
		stuck = fmt.Sprintf("%d messages not delivered, %d without an answer, %d rows not decided", pending, info.NumAckPending, waiting)
		if patience.over(time.Now(), pending) {
			break
		}
	}
	r.report.Stuck = stuck
	r.say("does not come to rest: %s", stuck)
	return nil
}

// look asks every oracle.
func (r *run) look(ctx context.Context, sent client.Result) error {
	state, err := r.read(ctx)
	if err != nil {
		return err
	}
	r.report.Swept = state.Swept
	r.report.Verdict = check.Compare(r.traffic, sent.Acked, state)
	r.report.Messages = state.Messages
	if r.report.Deadlocks, err = occurrences(r.stage.PostgresLog(), "deadlock detected"); err != nil {
		return err
	}
	logs, err := filepath.Glob(filepath.Join(r.out, "*.log"))
	if err != nil {
		return err
	}
	r.report.Panics = 0
	for _, file := range logs {
		for _, text := range []string{"panic:", "panic serving", "rules panicked", "fatal error:", "DATA RACE"} {
			n, err := occurrences(file, text)
			if err != nil {
				return err
			}
			r.report.Panics += n
		}
	}
	r.report.WallSeconds = time.Since(r.began).Seconds()
	return r.audit(ctx)
}

// audit runs the product's own.
func (r *run) audit(ctx context.Context) error {
	out, err := r.stage.Command(ctx, "last", "audit", "--json").Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return fmt.Errorf("run the audit: %w", err)
	}
	r.report.Audit = report.Audit{}
	if err := json.Unmarshal(out, &r.report.Audit); err != nil {
		return fmt.Errorf("read the audit: %w\n%s", err, out)
	}
	return nil
}

func occurrences(file, text string) (int, error) {
	data, err := os.ReadFile(file)
	return strings.Count(string(data), text), err
}

// say writes a line on the terminal and into the run's log.
func (r *run) say(format string, args ...any) {
	line := fmt.Sprintf("%7.1fs  ", time.Since(r.began).Seconds()) + fmt.Sprintf(format, args...)
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintln(os.Stderr, line)
	fmt.Fprintln(r.log, line)
}

// version is the commit that is tested, where git knows.
func version(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
