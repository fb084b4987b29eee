package growth

import (
	"fmt"
	"os"
	"strings"
)

// The marks between which Update writes.
const (
	begin = "<!-- growth:begin -->"
	end   = "<!-- growth:end -->"
)

// Report is everything that is told.
type Report struct {
	Calibration   *Calibration
	Measured      *Measured
	Checks        []Check
	Steps         []System
	Cell          System
	Ceilings      []Ceiling
	Needs         []Need
	Sensitivities []Sensitivity
}

// NewReport predicts everything.
func NewReport(c *Calibration, m *Measured) *Report {
	r := &Report{Calibration: c, Measured: m, Checks: Compare(c, m), Steps: Steps(c)}
	r.Cell = System{Scenario: Scenario{
		Receivers: 2, Workers: 4, Apart: true, Cores: 4, DataCores: 16, Replicas: 3, Customers: million,
	}}.measure(c)
	r.Ceilings = Ceilings(c, r.Cell.Scenario)
	r.Needs = Needs(c, r.Cell, 10_000, 100_000, 1_000_000)
	r.Sensitivities = Sensitivities(c, r.Cell.Scenario)
	return r
}

// Update puts the report between the marks of the Markdown file at path; plots are
// in the folder of this name beside it.
func (r *Report) Update(path, plots string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("update report: %w", err)
	}
	head, rest, ok := strings.Cut(string(text), begin)
	_, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return fmt.Errorf("update report: %s has no %s and %s", path, begin, end)
	}
	body := head + begin + "\n" + r.Markdown(plots) + end + tail
	if err := os.WriteFile(path, []byte(body), 0o644); err != nil { //nolint:gosec // a document for all
		return fmt.Errorf("update report: %w", err)
	}
	return nil
}

// Markdown is the report as text.
func (r *Report) Markdown(plots string) string {
	var b strings.Builder
	r.short(&b)
	r.check(&b, plots)
	r.answers(&b, plots)
	r.limits(&b, plots)
	r.parameters(&b)
	return b.String()
}

// short is the answers in a few sentences.
func (r *Report) short(b *strings.Builder) {
	b.WriteString("## In short\n\n")
	for _, n := range r.Needs {
		fmt.Fprintf(b, "- **%s events/s**: %s, each a stream of %d replicas and a Postgres, with %s and %s in all, and %s cores busy. First to break: %s, at %s/s.\n",
			count(n.Rate), many(n.Cells, "cell"), r.Cell.Replicas, many(n.Cells*n.Receivers, "receiver"), many(n.Cells*n.Workers, "worker"),
			rough(sum(n.Cores)), n.First, rough(n.FirstAt))
	}
	for _, ceiling := range r.Ceilings {
		if ceiling.Part == fewCustomers {
			fmt.Fprintf(b, "- Whatever the machines, one Postgres whose events are of few customers (below some 100,000) stops at %s/s: their batches wait for each other's rows.\n", rough(ceiling.Rate))
		}
	}
	last := r.Needs[len(r.Needs)-1]
	fmt.Fprintf(b, "- More than one cell needs what this project does not have: a way to send each event to the cell of its accounts. And %s events/s are %s billion rows and %s TB of WAL a day, to be kept, read by the audit, and backed up: none of that is in the model.\n\n",
		count(last.Rate), rough(last.Rate*86400/1e9), rough(last.WAL*86400/1e12))
}

func table(b *strings.Builder, header []string, rows [][]string) {
	fmt.Fprintf(b, "| %s |\n|%s\n", strings.Join(header, " | "), " :--- |"+strings.Repeat(" ---: |", len(header)-1))
	for _, row := range rows {
		fmt.Fprintf(b, "| %s |\n", strings.Join(row, " | "))
	}
	b.WriteString("\n")
}

func (r *Report) check(b *strings.Builder, plots string) {
	right := 0
	var rows [][]string
	for _, c := range r.Checks {
		verdict := "**off**"
		if c.OK() {
			right++
			verdict = "right"
		}
		where := c.Where
		if c.Used {
			where += " *"
		}
		rows = append(rows, []string{where, c.What, figure(c.Measured), figure(c.Predicted), fmt.Sprintf("%+.0f %%", 100*c.Error()), verdict, fmt.Sprintf("%.1f", c.Foreign)})
	}
	fmt.Fprintf(b, "## Checked against measurement\n\n%d of %d predictions are right within %.0f %%, the others are shown as off.", right, len(r.Checks), 100*tolerance)
	fmt.Fprintf(b, " Where a row has a star, the parameters are from the CPU times of that very load, never from the figure that is compared.")
	fmt.Fprintf(b, " *Others' cores* is how much of the machine somebody else used meanwhile: the prediction has as many cores less, and the measured figure is the less certain.\n\n")
	fmt.Fprintf(b, "Measured on %.0f cores of %s, fsync of 4 KiB %.0f µs, %s. %s\n\n", r.Measured.Machine.Cores, r.Measured.Machine.CPU, r.Measured.Machine.Sync, r.Measured.Started.Format("2006-01-02"), r.Measured.Note)
	if len(r.Measured.Open) > 0 {
		b.WriteString("Offered rates that the system did not keep up with are left out: an answer then takes as long as one goes on measuring.\n\n")
	} else {
		b.WriteString("Receiver and worker at once were not measured for this table: how they get in each other's way is unchecked.\n\n")
	}
	fmt.Fprintf(b, "![Predicted as a share of measured](%s/check.png)\n\n", plots)
	table(b, []string{"load", "what", "measured", "predicted", "error", "", "others' cores"}, rows)
}

func figure(v float64) string {
	if v < 1000 {
		return fmt.Sprintf("%.3g", v)
	}
	return count(v)
}

func (r *Report) answers(b *strings.Builder, plots string) {
	b.WriteString("## What breaks first\n\nEach line changes the one above it. *Answered* is what the receivers store and answer, *posted* what the workers bring into the ledger from a backlog, events a second; the lower is what the system keeps up with.\n\n")
	var rows [][]string
	for _, s := range r.Steps {
		rows = append(rows, []string{s.Name, rough(s.Answered), s.AnsweredBy, rough(s.Posted), s.PostedBy})
	}
	table(b, []string{"system", "answered", "held up by", "posted", "held up by"}, rows)
	fmt.Fprintf(b, "![A backlog by the number of workers](%s/workers.png)\n\n![Time to an answer by the rate](%s/latency.png)\n\n", plots, plots)

	rate, by := r.Cell.Highest()
	fmt.Fprintf(b, "## What a rate needs\n\nA *cell* is one stream of 3 replicas with its Postgres, Redis, receivers and workers, %.0f cores for each broker and Postgres, %.0f for the rest. It keeps up with %s events a second (%s); one plans with %.0f %% of that. ", r.Cell.DataCores, r.Cell.Cores, rough(rate), by, 100*share)
	if worst := r.worstTail(); worst > 1 {
		fmt.Fprintf(b, "Measured 99th percentiles were up to %.1f times what was predicted: take those below that much longer. ", worst)
	}
	b.WriteString("Where more than one cell is needed, each event has to go to the cell of its accounts, and the account that is in every event has a row in each: **nothing in this project does that yet.** Nothing is to spare for failures: add a receiver and a worker to each cell.\n\n")
	header := []string{""}
	for _, n := range r.Needs {
		header = append(header, count(n.Rate)+" events/s")
	}
	row := func(name string, of func(Need) string) []string {
		cells := []string{name}
		for _, n := range r.Needs {
			cells = append(cells, of(n))
		}
		return cells
	}
	table(b, header, [][]string{
		row("cells: stream, Postgres, Redis", func(n Need) string { return count(float64(n.Cells)) }),
		row("receivers, workers", func(n Need) string {
			return fmt.Sprintf("%s, %s", count(float64(n.Cells*n.Receivers)), count(float64(n.Cells*n.Workers)))
		}),
		row("servers of NATS", func(n Need) string { return count(float64(n.Cells * r.Cell.Replicas)) }),
		row("busy cores: receivers, workers", func(n Need) string {
			return fmt.Sprintf("%s, %s", rough(n.Cores["receiver"]), rough(n.Cores["worker"]))
		}),
		row("busy cores: NATS with replicas, Postgres, Redis", func(n Need) string {
			return fmt.Sprintf("%s, %s, %s", rough(n.Cores["nats"]), rough(n.Cores["postgres"]), rough(n.Cores["redis"]))
		}),
		row("breaks first, at", func(n Need) string { return fmt.Sprintf("%s, %s/s", n.First, rough(n.FirstAt)) }),
		row("answer, median and 99th percentile", func(n Need) string {
			return fmt.Sprintf("%s, %s ms", rough(1e3*n.Cell.AckP50), rough(1e3*n.Cell.AckP99))
		}),
		row("from request to ledger, the same", func(n Need) string {
			return fmt.Sprintf("%s, %s ms", rough(1e3*n.Cell.LagP50), rough(1e3*n.Cell.LagP99))
		}),
		row("messages a batch: stream, ledger", func(n Need) string { return fmt.Sprintf("%s, %s", rough(n.Cell.AckBatch), rough(n.Cell.DoneBatch)) }),
		row("commits a second of one stream, one Postgres", func(n Need) string { return fmt.Sprintf("%s, %s", rough(n.Batches), rough(n.Commits)) }),
		row("WAL of all Postgres", func(n Need) string { return rough(n.WAL/1e6) + " MB/s" }),
		row("written by all NATS", func(n Need) string { return rough(n.Stored/1e6) + " MB/s" }),
		row("received", func(n Need) string { return rough(n.Network/1e6) + " MB/s" }),
		row("rows of transfers a day", func(n Need) string { return rough(n.Rate*86400/1e9) + " billion" }),
	})
}

// worstTail is how many times a 99th percentile was what was predicted, at worst.
func (r *Report) worstTail() (worst float64) {
	for _, c := range r.Checks {
		if c.What == "p99 ms" {
			worst = max(worst, c.Measured/c.Predicted)
		}
	}
	return worst
}

func (r *Report) limits(b *strings.Builder, plots string) {
	b.WriteString("## Ceilings of a cell\n\nWhat each part allows by itself, whatever the others do, worked out from the parameters; the simulation never passes one, and stays below where parts wait for each other.\n\n")
	var rows [][]string
	for _, c := range r.Ceilings {
		rows = append(rows, []string{c.Part, c.How, rough(c.Rate)})
	}
	table(b, []string{"part", "why", "events/s"}, rows)
	fmt.Fprintf(b, "![A backlog by the number of customers](%s/customers.png)\n\n", plots)
}

func (r *Report) parameters(b *strings.Builder) {
	fmt.Fprintf(b, "## Parameters, and what hangs on them\n\nThe last two columns are what becomes of a cell's highest rates, answered and posted, when the parameter is %g times as large. `…_us` is microseconds of one core unless the source says otherwise; shares have no unit.\n\n", factor)
	values := map[string]float64{}
	for name, p := range r.Calibration.all() {
		values[name] = p.Value
	}
	var rows [][]string
	for _, s := range r.Sensitivities {
		rows = append(rows, []string{"`" + s.Name + "`", figure(values[s.Name]), s.Source, percent(s.Answered), percent(s.Posted)})
	}
	table(b, []string{"parameter", "value", "source", "answered", "posted"}, rows)
}

func percent(share float64) string {
	if share > -0.015 && share < 0.015 {
		return "–"
	}
	return fmt.Sprintf("%+.0f %%", 100*share)
}
