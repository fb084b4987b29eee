package rules_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/rules"
)

func TestCompileReportsFaultsAtTheirPlace(t *testing.T) {
	t.Parallel()
	const stands = 11 // the column of every expression; see text
	for name, row := range map[string]struct {
		change  func(*config.Source)
		path    string
		column  int
		message string
	}{
		"undeclared variable": {func(s *config.Source) { s.Rules[0].When = text(`event.type == bodyy.x`) },
			"rules[0].when", stands + 14, "undeclared reference to 'bodyy'"},
		"undeclared after umlauts": {func(s *config.Source) { s.Rules[0].When = text(`"äöü🎉" == x`) },
			"rules[0].when", stands + 10, "undeclared reference to 'x'"},
		"syntax": {func(s *config.Source) { s.Rules[0].When = text(`event.type ==`) },
			"rules[0].when", stands + 13, "Syntax error"},
		"when is text": {func(s *config.Source) { s.Rules[0].When = text(`event.type`) },
			"rules[0].when", stands, "is of type string, not bool"},
		"unknown event member": {func(s *config.Source) { s.Rules[0].When = text(`"x" == event.typ`) },
			"rules[0].when", stands + 12, `event has no "typ", only id, type, source, account, mode`},
		"header name": {func(s *config.Source) { s.Rules[0].When = text(`header["x-github-event"] == "x"`) },
			"rules[0].when", stands + 6, `write header["X-Github-Event"]`},
		"loop variable": {func(s *config.Source) { s.Rules[0].When = text(`body.list.exists(body, body == 1)`) },
			"rules[0].when", stands + 16, "a loop variable must not be called body"},
		"missing": {func(s *config.Source) { s.Rules[0].Transfers[0].Debit = config.Text{} },
			"rules[0].transfers[0].debit", 5, "is missing"},
		"amount is text": {func(s *config.Source) { s.Rules[0].Transfers[0].Amount = text(`"100"`) },
			"rules[0].transfers[0].amount", stands, "is of type string, not int; use minor(x)"},
		"amount is a double": {func(s *config.Source) { s.Rules[0].Transfers[0].Amount = text(`double(body.x) * 100.0`) },
			"rules[0].transfers[0].amount", stands, "is of type double, not int; use minor(x)"},
		"asset is unknown": {func(s *config.Source) { s.Rules[0].Transfers[0].Asset = text(`"EURO"`) },
			"rules[0].transfers[0].asset", stands, `asset is unknown: "EURO"`},
		"account name": {func(s *config.Source) { s.Rules[0].Transfers[0].Debit = text(`"customer:"`) },
			"rules[0].transfers[0].debit", stands, "is empty"},
		"parent is text": {func(s *config.Source) { s.Rules[0].Transfers[0].Parent = text(`"ch_1"`) },
			"rules[0].transfers[0].parent", stands, "is of type string, not operation; use op(...)"},
		"parent is blank": {func(s *config.Source) { s.Rules[0].Transfers[0].Parent = text(` `) },
			"rules[0].transfers[0].parent", stands, "is missing"},
		"parent is the operation": {func(s *config.Source) { s.Rules[0].Transfers[0].Parent = s.Rules[0].Transfers[0].Operation },
			"rules[0].transfers[0].parent", stands, "is the operation itself"},
		"refunds is text": {func(s *config.Source) { s.Rules[0].Transfers[0].Refunds = text(`"ch_1"`) },
			"rules[0].transfers[0].refunds", stands, "is of type string, not operation; use op(...)"},
		"refunds is the operation": {func(s *config.Source) { s.Rules[0].Transfers[0].Refunds = s.Rules[0].Transfers[0].Operation },
			"rules[0].transfers[0].refunds", stands, "is the operation itself"},
		"refunds and parent": {func(s *config.Source) {
			s.Rules[0].Transfers[0].Refunds, s.Rules[0].Transfers[0].Parent = text(`op("a", "b")`), text(`op("a", "b")`)
		}, "rules[0].transfers[0].refunds", stands, "leave parent out"},
		"captures is text": {func(s *config.Source) { s.Rules[0].Transfers[0].Captures = text(`"ch_1"`) },
			"rules[0].transfers[0].captures", stands, "is of type string, not operation; use op(...)"},
		"captures is the operation": {func(s *config.Source) { s.Rules[0].Transfers[0].Captures = s.Rules[0].Transfers[0].Operation },
			"rules[0].transfers[0].captures", stands, "is the operation itself"},
		"final is text": {func(s *config.Source) {
			s.Rules[0].Transfers[0].Captures, s.Rules[0].Transfers[0].Final = text(`op("a", "b")`), text(`"yes"`)
		}, "rules[0].transfers[0].final", stands, "is of type string, not bool; write true"},
		"voids is text": {func(s *config.Source) {
			s.Rules[0].Transfers[0] = config.Transfer{Voids: text(`"ch_1"`), Operation: text(`op("a", "b")`)}
		}, "rules[0].transfers[0].voids", stands, "is of type string, not operation; use op(...)"},
		"same account": {func(s *config.Source) { s.Rules[0].Transfers[0].Credit = text(`"world"`) },
			"rules[0].transfers[0].credit", stands, "is the debit account, too"},
		"operation is text": {func(s *config.Source) { s.Rules[0].Transfers[0].Operation = text(`"charge:" + body.id`) },
			"rules[0].transfers[0].operation", stands, "is of type string, not operation; use op(...)"},
		"operation is anything": {func(s *config.Source) { s.Rules[0].Transfers[0].Operation = text(`body.id`) },
			"rules[0].transfers[0].operation", stands, "is of type dyn, not operation; use op(...)"},
		"operation without part": {func(s *config.Source) { s.Rules[0].Transfers[0].Operation = text(`op("charge")`) },
			"rules[0].transfers[0].operation", stands + 2, "no matching overload"},
		"fingerprint": {func(s *config.Source) { s.Fingerprint = []config.Text{text("id"), text("data..id")} },
			"fingerprint[1]", stands, `"data..id" is no path`},
	} {
		src := stripeSource(chargeRule())
		row.change(&src)
		src.Rules[0].Transfers[0].Pos = config.Pos{Line: 7, Column: 5}
		set, faults := rules.Compile(src, stripe, nil)
		require.Nil(t, set, name)
		require.Len(t, faults, 1, "%s: %v", name, faults)
		require.Equal(t, "sources.stripe."+row.path, faults[0].Path, name)
		require.Equal(t, config.Pos{Line: 7, Column: row.column}, faults[0].Pos, "%s: %v", name, faults)
		require.Contains(t, faults[0].Message, row.message, name)
	}
}

func TestCompileReportsAllFaultsAtOnce(t *testing.T) {
	t.Parallel()
	src := stripeSource(chargeRule(), chargeRule())
	src.Rules[0].When = text("1 +")
	src.Rules[0].Transfers[0].Asset = text("nothing")
	src.Rules[1].Transfers[0].Operation = text("other + another")
	_, faults := rules.Compile(src, stripe, nil)
	require.Len(t, faults, 4, "%v", faults)
}

func TestCompileFindsLinesOfBlocks(t *testing.T) {
	t.Parallel()
	src := stripeSource(chargeRule())
	src.Rules[0].When = text("event.type == \"a\" ||\n  oops == 1")
	_, faults := rules.Compile(src, stripe, nil)
	require.Len(t, faults, 1)
	require.Equal(t, config.Pos{Line: 8, Column: 13}, faults[0].Pos)
}

func TestCompileTakesASourceWithoutRules(t *testing.T) {
	t.Parallel()
	set := compile(t, stripeSource(), stripe)
	require.Empty(t, set.Decide(stripeEvent(`{"a":1}`)).Parked)
}
