package contender

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/onceledger/onceledger/internal/config"
)

// filled begins the id of an event that nobody sent.
const filled = "filled_"

// FillTables gives the tables of a contender n events that were applied already, to
// the 10,000 customers of traffic. A million take some ten seconds.
func FillTables(ctx context.Context, cfg *config.Config, n int) error {
	return withConn(ctx, cfg, func(conn *pgx.Conn) error {
		for _, statement := range []string{
			fmt.Sprintf(`
				INSERT INTO contender.events (id, received_at)
				SELECT '%s' || lpad(i::text, 18, '0'), now() - (%[2]d - i) * interval '10 ms'
				FROM generate_series(0, %[2]d - 1) AS i`, filled, n),
			fmt.Sprintf(`
				INSERT INTO contender.transfers (event_id, debit, credit, amount, asset, created_at)
				SELECT '%s' || lpad(i::text, 18, '0'), '%s', 'wallet:cus_' || lpad((i %% 10000)::text, 5, '0'), 1000 + i %% 9000, 'eur',
				       now() - (%[3]d - i) * interval '10 ms'
				FROM generate_series(0, %[3]d - 1) AS i`, filled, Merchant, n),
			`INSERT INTO contender.accounts (name, asset, limited, credits_posted)
			 SELECT credit, asset, true, sum(amount)
			 FROM contender.transfers
			 GROUP BY credit, asset`,
			`UPDATE contender.accounts
			 SET debits_posted = (SELECT sum(amount) FROM contender.transfers)
			 WHERE name = '` + Merchant + `'`,
			`VACUUM ANALYZE contender.events, contender.transfers, contender.accounts`,
			`CHECKPOINT`,
		} {
			if _, err := conn.Exec(ctx, statement); err != nil {
				return fmt.Errorf("fill tables: %w", err)
			}
		}
		return nil
	})
}
