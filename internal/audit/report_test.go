package audit_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/audit"
)

var update = flag.Bool("update", false, "write the golden files anew")

// sample is a report with every field set.
func sample() *audit.Report {
	no := int64(42)
	return &audit.Report{
		Problems: 2, Started: time.Date(2024, 5, 1, 10, 0, 0, 0, time.UTC), Seconds: 1.25,
		Stream: audit.Stream{Created: time.Date(2024, 4, 1, 0, 0, 0, 0, time.UTC), First: 1, Last: 20000, AckFloor: 19987},
		Sum: audit.Sum{
			Messages: 20000, Applied: 14500, Ignored: 12, DuplicateOperation: 3, Duplicates: 5460,
			Parked: 10, Discarded: 1, Redriven: 2, InFlight: 11, Unaccounted: 1,
		},
		Books: audit.Books{
			Events: 14526, Transfers: 14500, Operations: 14500, Accounts: 1003,
			Assets: []audit.AssetTotal{
				{Asset: "EUR", Exponent: 2, Accounts: 1001, Debits: "123456789012345678901", Credits: "123456789012345678901"},
				{Asset: "POINTS", Exponent: 0, Accounts: 2, Debits: "5", Credits: "5"},
			},
		},
		Letters: audit.Letters{Stored: 12, Stale: 2, Failed: 10, Unrecorded: 1},
		Findings: []audit.Finding{
			{Kind: audit.Lost, Seq: 17, Source: "shop", EventID: "evt_\x1b[31m", Detail: "no event has this id, although the message was answered"},
			{
				Kind: audit.NoOperation, Source: "shop", EventID: "evt_2", Variant: "conflict:ab", EventNo: &no,
				Account: "purse:a", Asset: "EUR", Operation: "4:shop,", Detail: "transfer 0.05 EUR from a to b has no operation",
			},
		},
	}
}

func TestReport(t *testing.T) {
	t.Parallel()

	t.Run("keeps its JSON names", func(t *testing.T) {
		t.Parallel()
		text, err := json.MarshalIndent(sample(), "", "  ")
		require.NoError(t, err)
		golden(t, "report.json", append(text, '\n'))
	})
	t.Run("shows every term to a person", func(t *testing.T) {
		t.Parallel()
		var out bytes.Buffer
		require.NoError(t, sample().WriteTable(&out))
		golden(t, "report.txt", out.Bytes())
	})
	t.Run("ends in its verdict", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, "CLEAN", (&audit.Report{}).Verdict())
		require.Equal(t, "1 problem", (&audit.Report{Problems: 1}).Verdict())
		require.Equal(t, "2 problems", (&audit.Report{Problems: 2}).Verdict())
	})
}

func golden(t *testing.T, name string, have []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, have, 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(have))
}
