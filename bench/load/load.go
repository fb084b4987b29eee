// Package load sends signed webhooks from a process of its own, as many
// senders at once, each over a connection it keeps, each waiting for its
// answer before it sends again (a closed loop).
//
//	func main() { load.Main() … } // this process may be the generator
//	…
//	result, err := load.Run(ctx, load.Plan{URL: url, Senders: 256, Measure: 3 * time.Second, …})
//
// It counts every answer, those outside the measured time too, so that the
// receiver's promises can be compared with what the stream holds.
package load

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	// roleEnv makes a re-executed binary the generator.
	roleEnv = "ONCELEDGER_BENCH_LOAD"
	// answerLimit is how long a sender waits for an answer; the receiver's own
	// limit is lower.
	answerLimit = 30 * time.Second
	// startLimit covers the start of the process and its connections.
	startLimit = 30 * time.Second
)

// The histogram's range, in microseconds, and its digits.
const (
	shortest, longest, precision = 1, int64(60 * time.Second / time.Microsecond), 3
)

// NewHistogram returns an empty histogram of microseconds.
func NewHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(shortest, longest, precision) }

// Plan says what one run sends.
type Plan struct {
	// URL is the webhook's address, http://host:port/path.
	URL string
	// Config and Source say how to sign.
	Config, Source string
	// Tag makes the ids of this run its own; Size is that of a body in bytes.
	Tag  string
	Size int
	// Senders is how many send at once.
	Senders int
	// Twice sends each event a second time, about this many deliveries after the
	// first; 0: once.
	Twice int
	// WarmUp is sent before, and not measured.
	WarmUp, Measure time.Duration
}

// Result is what came of a Plan.
type Result struct {
	// Accepted counts every 2xx, Refused every other answer by its status, and
	// Unanswered what broke off, the warm-up included.
	Accepted   int
	Refused    map[int]int
	Unanswered int
	// Events is how many different ones were sent: the numbers below it. Lacking
	// are those of them of which no delivery was accepted, in order.
	Events  int
	Lacking []int
	// Began is when the first was sent, the warm-up included.
	Began time.Time
	// Measured counts the 2xx within Plan.Measure; Latency is theirs, in
	// microseconds from before the request is written to the end of its answer.
	Measured int
	Latency  *hdrhistogram.Histogram `json:"-"`
	// CPU is what the generator itself used.
	CPU time.Duration
}

// Failed is how many requests were not accepted.
func (r Result) Failed() int {
	n := r.Unanswered
	for _, count := range r.Refused {
		n += count
	}
	return n
}

// wire is how a Result leaves its process.
type wire struct {
	Result
	Encoded []byte
}

// Run carries out plan in a process of its own, which ctx ends.
func Run(ctx context.Context, plan Plan) (*Result, error) {
	ctx, cancel := context.WithTimeout(ctx, plan.WarmUp+plan.Measure+answerLimit+startLimit)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find own executable: %w", err)
	}
	text, err := json.Marshal(plan)
	if err != nil {
		return nil, fmt.Errorf("write plan: %w", err)
	}
	var out, failure bytes.Buffer
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), roleEnv+"="+string(text))
	cmd.Stdout, cmd.Stderr = &out, &failure
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("run load generator: %w: %s", err, failure.Bytes())
	}
	var got wire
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		return nil, fmt.Errorf("read result of load generator: %w", err)
	}
	if got.Latency, err = hdrhistogram.Decode(got.Encoded); err != nil {
		return nil, fmt.Errorf("read latencies of load generator: %w", err)
	}
	got.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return &got.Result, nil
}

// Main carries out the plan and exits, if this process was started for that.
// Call it first in main.
func Main() {
	text, ok := os.LookupEnv(roleEnv)
	if !ok {
		return
	}
	if err := serve(text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func serve(text string) error {
	var plan Plan
	if err := json.Unmarshal([]byte(text), &plan); err != nil {
		return fmt.Errorf("read plan: %w", err)
	}
	result, err := send(context.Background(), plan)
	if err != nil {
		return err
	}
	out := wire{Result: *result}
	if out.Encoded, err = result.Latency.Encode(hdrhistogram.V2CompressedEncodingCookieBase); err != nil {
		return fmt.Errorf("write latencies: %w", err)
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}
