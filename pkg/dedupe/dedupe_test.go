package dedupe_test

import (
	"crypto/sha256"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/pkg/dedupe"
)

func TestCompare(t *testing.T) {
	t.Parallel()
	content := func(body, meaning string, rules int64) dedupe.Content {
		return dedupe.Content{BodyHash: sha256.Sum256([]byte(body)), Fingerprint: sha256.Sum256([]byte(meaning)), Rules: rules}
	}
	base := content("body", "meaning", 1)
	for outcome, c := range map[string]struct {
		other dedupe.Content
		want  dedupe.Sameness
	}{
		"the same bytes":                          {content("body", "meaning", 1), dedupe.Same},
		"the same bytes by other rules":           {content("body", "other", 2), dedupe.Same},
		"other bytes of one meaning":              {content("spaced body", "meaning", 1), dedupe.Same},
		"another meaning":                         {content("spaced body", "other", 1), dedupe.Different},
		"other rules say nothing":                 {content("spaced body", "other", 2), dedupe.Unsure},
		"other rules say nothing when they agree": {content("spaced body", "meaning", 2), dedupe.Unsure},
	} {
		require.Equal(t, c.want, base.Compare(c.other), outcome)
		require.Equal(t, c.want, c.other.Compare(base), outcome)
	}
}

func TestTerminal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		state              dedupe.State
		letter             uint64
		terminal, standing bool
	}{
		{dedupe.Completed, 0, true, true},
		{dedupe.Discarded, 0, true, false},
		{dedupe.Discarded, 5, true, false},
		{dedupe.Failed, 5, true, false},
		{dedupe.Failed, 0, false, false}, // whoever sees it stores its letter
		{dedupe.Pending, 0, false, false},
		{dedupe.Pending, 5, false, false}, // redriven: its letter is about to go
		{dedupe.Processing, 0, false, false},
	} {
		row := dedupe.Row{State: c.state, DLQSeq: c.letter}
		require.Equal(t, c.terminal, row.Terminal(), "%+v", c)
		require.Equal(t, c.standing, row.Standing(), "%+v", c)
	}
}

func TestConflictNamesTheContent(t *testing.T) {
	t.Parallel()
	key := dedupe.Key{Source: "stripe", ID: "evt"}
	a, b := dedupe.Conflict(key, sha256.Sum256([]byte("a"))), dedupe.Conflict(key, sha256.Sum256([]byte("b")))
	require.NotEqual(t, a, b)
	require.Equal(t, a, dedupe.Conflict(key, sha256.Sum256([]byte("a"))))
	require.Equal(t, a, dedupe.Conflict(b, sha256.Sum256([]byte("a"))))
	require.True(t, strings.HasPrefix(a.Variant, "conflict:"))
	require.Negative(t, key.Compare(a)) // the standing row is locked before its conflicts
}
