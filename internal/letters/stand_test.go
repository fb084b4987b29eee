package letters_test

import (
	"crypto/sha256"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/letters"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
)

func TestStand(t *testing.T) {
	body := []byte(`{}`)
	hash := sha256.Sum256(body)
	of := func(state dedupe.State, letter uint64) *dedupe.Row {
		return &dedupe.Row{No: 7, State: state, Redrives: 1, Attempt: 2, DLQSeq: letter, Content: dedupe.Content{BodyHash: hash}}
	}
	now, before := of(dedupe.Failed, 0).LetterName(hash), (&dedupe.Row{No: 7}).LetterName(hash)
	old := of(dedupe.Failed, 0)
	old.BegunFor = time.Hour
	other := of(dedupe.Pending, 0)
	other.BodyHash = sha256.Sum256([]byte("x"))
	for name, test := range map[string]struct {
		once string
		row  *dedupe.Row
		want letters.Standing
	}{
		"no row":                      {now, nil, letters.Orphaned},
		"its row names it":            {now, of(dedupe.Failed, 3), letters.Parked},
		"its row names another":       {now, of(dedupe.Failed, 4), letters.Stale},
		"its row is about to name it": {now, of(dedupe.Failed, 0), letters.Parked},
		"its row was parked anew, the letter is coming": {before, of(dedupe.Failed, 0), letters.Deciding},
		"its row was parked anew, and none came":        {before, old, letters.Parked},
		"a letter without a name":                       {"", of(dedupe.Failed, 0), letters.Parked},
		"its event waits":                               {before, of(dedupe.Pending, 0), letters.Redriven},
		"its event is tried":                            {before, of(dedupe.Processing, 0), letters.Deciding},
		"its event is done":                             {before, of(dedupe.Completed, 0), letters.Stale},
		"its event waits with another content":          {before, other, letters.Stale},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.want, letters.Stand(&dlq.Letter{Seq: 3, Once: test.once, Data: body}, test.row))
		})
	}
}
