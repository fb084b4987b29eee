package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/onceledger/onceledger/test/torture/client"
	"github.com/onceledger/onceledger/test/torture/report"
	"github.com/onceledger/onceledger/test/torture/stage"
	"github.com/onceledger/onceledger/test/torture/traffic"
)

// resume takes up a run that was broken, from what it left on disk: it starts
// everything again, waits for rest, and asks every oracle anew. What was sent and
// accepted it knows from the history alone.
func resume(ctx context.Context, dir string) (*report.Report, error) {
	r := &run{options: options{out: dir}, began: time.Now(), report: &report.Report{}}
	text, err := os.ReadFile(filepath.Join(dir, "report.json"))
	if err == nil {
		err = json.Unmarshal(text, r.report)
	}
	if err != nil {
		return nil, fmt.Errorf("read the report of the run: %w", err)
	}
	r.seed, r.rate, r.plan = r.report.Seed, r.report.Rate, r.report.Plan
	r.report.Resumed, r.report.Stuck = true, ""
	if r.log, err = os.OpenFile(filepath.Join(dir, "run.log"), os.O_APPEND|os.O_WRONLY, 0); err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	defer r.log.Close()
	sent := r.report.Sent
	if r.traffic, sent.Acked, err = history(filepath.Join(dir, "history.txt"), r.seed, r.rate); err != nil {
		return nil, err
	}
	r.say("taken up: %d events, %d bodies", len(r.traffic.Events), len(sent.Acked))
	r.stage, err = stage.Open(ctx, stage.Options{Out: dir, Receivers: receivers, Workers: workers, Cluster: r.plan == "cluster", Resume: true, Say: r.say})
	if err == nil {
		err = r.settle(ctx, sent)
	}
	if err == nil {
		r.report.Rest = time.Since(r.began)
		err = r.look(ctx, sent)
	}
	return r.report, r.end(ctx, err)
}

// history reads which bodies were tried and accepted, and writes the events of the
// seed again.
func history(file string, seed uint64, rate int) (*traffic.Stream, map[client.Body]client.Acked, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, nil, fmt.Errorf("read history: %w", err)
	}
	defer f.Close()
	stream, acked := traffic.New(seed, rate), map[client.Body]client.Acked{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var ms, n, content, form, receiver, status int
		var source, id string
		if _, err := fmt.Sscan(lines.Text(), &ms, &n, &source, &id, &content, &form, &receiver, &status); err != nil {
			continue // the head
		}
		e, err := stream.Find(source, id)
		if err != nil {
			return nil, nil, fmt.Errorf("read history: %w", err)
		}
		client.Note(acked, traffic.Delivery{Event: e, Content: content, Form: form}, status)
	}
	stream.Keep()
	return stream, acked, lines.Err()
}
