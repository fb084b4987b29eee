package dlq_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/pkg/dlq"
)

// declared returns the constants of reason.go by their words.
func declared(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "reason.go", nil, 0)
	require.NoError(t, err)
	words := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Reason" {
			word, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			require.NoError(t, err)
			require.Empty(t, words[word], "%s is declared twice", word)
			words[word] = spec.Names[0].Name
		}
		return true
	})
	require.NotEmpty(t, words)
	return words
}

func TestEveryReasonHasAHint(t *testing.T) {
	t.Parallel()
	hints := map[string]string{}
	// What a person can do: an imperative, or the two things to compare.
	does := regexp.MustCompile(`\b(discard|redrive|compare|configure|check|set|ask|let|find|open|fund|add|correct|mend|see|declare|use)\b`)
	words := declared(t)
	for word := range words {
		info, ok := dlq.Reason(word).Info()
		require.True(t, ok, word)
		require.NotEmpty(t, info.Hint, word)
		require.LessOrEqual(t, len(info.Hint), 160, word)
		require.Regexp(t, does, info.Hint, word)
		require.Empty(t, hints[info.Hint], "%s and %s share a hint", word, hints[info.Hint])
		hints[info.Hint] = word
		require.Equal(t, "dlq."+word+".s", dlq.Subject(dlq.Reason(word), "s"))
	}
	require.Len(t, dlq.Reasons(), len(words), "Info knows a reason that is not declared")
}

func TestReasonsThatMayPassMayBeSentAgain(t *testing.T) {
	t.Parallel()
	for _, word := range dlq.Reasons() {
		info, _ := dlq.Reason(word).Info()
		if info.Transient {
			require.True(t, info.Compensable, word)
		}
	}
	// Sending the same bytes again cannot help these (design, D14).
	for _, r := range []dlq.Reason{dlq.IDConflict, dlq.OperationConflict, dlq.BadJSON, dlq.AmbiguousJSON, dlq.NoEventID, dlq.IDInvalid, dlq.BadEnvelope} {
		info, _ := r.Info()
		require.False(t, info.Compensable, r)
	}
}

func TestAnUnknownReasonHasNoInfo(t *testing.T) {
	t.Parallel()
	info, ok := dlq.Reason("perhaps").Info()
	require.False(t, ok)
	require.Zero(t, info)
}
