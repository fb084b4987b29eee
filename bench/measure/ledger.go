package measure

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceledger/onceledger/bench/rig"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// wallets is how many accounts the transfers are spread over.
const wallets = 100_000

// What transfers share.
const (
	Spread = "100,000 accounts"
	Hot    = "one hot account"
)

// LedgerCell is transfers of one batch size, posted and merely inserted.
type LedgerCell struct {
	Accounts string `json:"accounts"`
	Batch    int    `json:"batch"`
	// PostedPerSecond are transfers through the ledger, InsertedPerSecond the same
	// rows of operations and transfers without it: no look at what is there, no
	// limit, no balance. Both are means of the rounds.
	PostedPerSecond   float64   `json:"posted_per_second"`
	InsertedPerSecond float64   `json:"inserted_per_second"`
	Posted            []float64 `json:"posted_rounds"`
	Inserted          []float64 `json:"inserted_rounds"`
	Cost              PerEvent  `json:"cost"` // per posted transfer; bench is the ledger's own Go

	transfers int
	cost      rig.Cost
}

// books are the two databases that are written to, in turn.
type books struct {
	*session
	posting, inserting *pgxpool.Pool
	known              ledger.Known // as a worker has it: it learns as it goes
	events             int64
	amount             int64 // posted so far
	transfers          int
}

// ledgers measures the ledger alone, over one connection, as each loop of a
// worker has one.
func (s *session) ledgers(ctx context.Context) (cells []LedgerCell, err error) {
	b := &books{session: s}
	for _, pool := range []**pgxpool.Pool{&b.inserting, &b.posting} { // the last one is recounted
		if err := s.rig.Reset(ctx); err != nil {
			return nil, err
		}
		if *pool, err = s.rig.Open(ctx); err != nil {
			return nil, err
		}
		defer (*pool).Close()
	}
	if err := b.openWallets(ctx); err != nil {
		return nil, err
	}
	if s.Size.Judge {
		if err := b.moveWallets(ctx); err != nil {
			return nil, err
		}
	}
	for _, accounts := range []string{Spread, Hot} {
		for _, size := range s.Size.Batches {
			cells = append(cells, LedgerCell{Accounts: accounts, Batch: size})
		}
	}
	for range s.Size.Rounds {
		for i := range cells {
			if err := b.round(ctx, &cells[i]); err != nil {
				return nil, fmt.Errorf("%s, batches of %d: %w", cells[i].Accounts, cells[i].Batch, err)
			}
		}
	}
	for i := range cells {
		c := &cells[i]
		c.PostedPerSecond, c.InsertedPerSecond = mean(c.Posted), mean(c.Inserted)
		c.Cost = perEvent(c.cost, c.transfers)
	}
	return cells, b.check(ctx)
}

// openWallets lets every account be there, so that each posting updates one.
func (b *books) openWallets(ctx context.Context) error {
	for _, statement := range []string{
		`INSERT INTO accounts (name, asset, balance_limit, limit_policy)
		 SELECT 'wallet:' || i, 'EUR', 'debits_must_not_exceed_credits', 'enforce'
		 FROM generate_series(0, $1 - 1) AS i`,
		`INSERT INTO accounts (name, asset) SELECT 'bank:' || i, 'EUR' FROM generate_series(0, $1 - 1) AS i`,
	} {
		if _, err := b.posting.Exec(ctx, statement, wallets); err != nil {
			return fmt.Errorf("open wallets: %w", err)
		}
	}
	if _, err := b.posting.Exec(ctx, `VACUUM ANALYZE accounts`); err != nil {
		return fmt.Errorf("analyze wallets: %w", err)
	}
	return nil
}

// moveWallets moves every wallet once: what follows is then what a worker does that has
// run for a while, and knows its accounts.
func (b *books) moveWallets(ctx context.Context) error {
	conn, err := b.posting.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("acquire connection: %w", err)
	}
	defer conn.Release()
	const size = 2000
	tag := b.tag()
	for next := 0; next < wallets; next += size {
		postings := make([]*ledger.Posting, size)
		for i := range postings {
			b.events++
			postings[i] = &ledger.Posting{EventNo: b.events, Transfers: []ledger.Transfer{{
				Operation: fmt.Sprintf("5:bench,0:,4:live,6:charge,%s:%d,", tag, b.events), Debit: "bank",
				Credit: fmt.Sprint("wallet:", next+i), Asset: "EUR", Amount: 1,
			}}}
		}
		if err := b.post(ctx, conn.Conn(), postings); err != nil {
			return err
		}
	}
	return nil
}

// round measures one cell both ways.
func (b *books) round(ctx context.Context, c *LedgerCell) error {
	meter := b.rig.Meter(nil)
	posted, n, err := b.repeat(ctx, c, b.posting, b.post)
	if err != nil {
		return err
	}
	cost := meter()
	c.cost.Add(cost)
	c.transfers += n
	inserted, _, err := b.repeat(ctx, c, b.inserting, insert)
	if err != nil {
		return err
	}
	c.Posted, c.Inserted = append(c.Posted, posted), append(c.Inserted, inserted)
	b.say("%-16s batches of %4d   %8.0f transfers/s posted   %8.0f merely inserted   others' load %.1f cores",
		c.Accounts, c.Batch, posted, inserted, cost.Foreign())
	return nil
}

type write func(ctx context.Context, conn *pgx.Conn, postings []*ledger.Posting) error

// repeat writes batches for as long as a cell lasts, and returns transfers a second.
func (b *books) repeat(ctx context.Context, c *LedgerCell, pool *pgxpool.Pool, do write) (rate float64, n int, err error) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("acquire connection: %w", err)
	}
	defer conn.Release()
	tag := b.tag()
	if err := do(ctx, conn.Conn(), b.postings(tag, c)); err != nil { // prepares the statements
		return 0, 0, err
	}
	began := time.Now()
	for n == 0 || time.Since(began) < b.Size.Ledger {
		if err := do(ctx, conn.Conn(), b.postings(tag, c)); err != nil {
			return 0, 0, err
		}
		n += c.Batch
	}
	return float64(n) / time.Since(began).Seconds(), n, nil
}

// postings makes a batch of events with a transfer each.
func (b *books) postings(tag string, c *LedgerCell) []*ledger.Posting {
	postings := make([]*ledger.Posting, c.Batch)
	for i := range postings {
		b.events++
		from := "bank"
		if c.Accounts == Spread {
			from = fmt.Sprint("bank:", rand.IntN(wallets)) //nolint:gosec // spreads the load
		}
		postings[i] = &ledger.Posting{EventNo: b.events, Transfers: []ledger.Transfer{{
			Operation: fmt.Sprintf("5:bench,0:,4:live,6:charge,%s:%d,", tag, b.events), Debit: from,
			Credit: fmt.Sprint("wallet:", rand.IntN(wallets)), Asset: "EUR", Amount: 1 + b.events%1000, //nolint:gosec // as above
		}}}
	}
	return postings
}

// post is what a worker does with a batch but for the rows of its events.
func (b *books) post(ctx context.Context, conn *pgx.Conn, postings []*ledger.Posting) error {
	batch := ledger.NewBatch(limited, postings)
	batch.Known = &b.known
	var first, second pgx.Batch
	first.Queue("BEGIN")
	batch.Reserve(&first)
	if err := conn.SendBatch(ctx, &first).Close(); err != nil {
		return fmt.Errorf("reserve batch: %w", err)
	}
	if err := batch.Decide(ctx, conn); err != nil {
		return err
	}
	batch.Write(&second)
	second.Queue("COMMIT")
	if err := conn.SendBatch(ctx, &second).Close(); err != nil {
		return fmt.Errorf("write batch: %w", err)
	}
	for _, p := range postings {
		if p.Err != nil || len(p.Posted) != 1 {
			return errors.Join(mismatch("event %d was not posted", p.EventNo), p.Err)
		}
		b.transfers++
		b.amount += p.Posted[0].Amount
	}
	return nil
}

// limited bounds the wallets.
func limited(account string) (ledger.Limit, bool) {
	return ledger.Limit{Rule: ledger.DebitsMustNotExceedCredits, Enforce: true}, strings.HasPrefix(account, "wallet:")
}

// insert writes the same rows of operations and transfers in one round trip.
func insert(ctx context.Context, conn *pgx.Conn, postings []*ledger.Posting) error {
	n := len(postings)
	events, numbers, amounts := make([]int64, n), make([]int16, n), make([]int64, n)
	keys, debits, credits, assets := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	for i, p := range postings {
		t := p.Transfers[0]
		events[i], amounts[i] = p.EventNo, t.Amount
		keys[i], debits[i], credits[i], assets[i] = t.Operation, t.Debit, t.Credit, t.Asset
	}
	var q pgx.Batch
	q.Queue("BEGIN")
	q.Queue(`
		INSERT INTO operations (key, event_no, debit, credit, asset, amount)
		SELECT *
		FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[])`,
		keys, events, debits, credits, assets, amounts)
	q.Queue(`
		INSERT INTO transfers (event_no, n, operation, debit, credit, asset, amount)
		SELECT *
		FROM unnest($1::bigint[], $2::smallint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[])`,
		events, numbers, keys, debits, credits, assets, amounts)
	q.Queue("COMMIT")
	if err := conn.SendBatch(ctx, &q).Close(); err != nil {
		return fmt.Errorf("insert batch: %w", err)
	}
	return nil
}

// check recounts what was posted.
func (b *books) check(ctx context.Context) error {
	got, err := b.rig.CountLedger(ctx)
	if err != nil {
		return err
	}
	want := rig.Ledger{Transfers: b.transfers, Amount: b.amount}
	if got != want {
		return mismatch("the ledger holds %+v, and must hold %+v", got, want)
	}
	return nil
}
