package rules

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// compiler compiles the expressions of one source and gathers faults.
type compiler struct {
	env   *cel.Env
	money *money
	path  string

	faults []config.Fault
	// all is what any expression reads, moving what the expressions of transfers read.
	all, moving reads
}

func newCompiler(m *money, path string) (*compiler, error) {
	env, err := newEnv(m)
	if err != nil {
		return nil, err
	}
	return &compiler{env: env, money: m, path: path}, nil
}

// wanted is what the result of an expression must be.
type wanted struct {
	result *cel.Type
	// hint tells what to write instead of another type.
	hint string
	// exact refuses dyn, too.
	exact bool
	// missing is the reason for an expression that fails because a path it
	// reads is missing or null.
	missing dlq.Reason
	// literal checks a constant; nil accepts any.
	literal func(string) *refusal
}

// operationWanted is what the operation and the parent of a transfer must be.
var operationWanted = wanted{
	result: operationType, hint: `use op(...), for example op("charge", body.id)`, exact: true, missing: dlq.NoOperation,
}

func (c *compiler) rule(r config.Rule, i int) rule {
	path := fmt.Sprintf("rules[%d]", i)
	compiled := rule{when: c.expression(r.When, r.Pos, path+".when", wanted{
		result: cel.BoolType, hint: `write a condition, for example event.type == "charge.succeeded"`,
	})}
	if written(r.Expect) {
		compiled.expect = c.expression(r.Expect, r.Pos, path+".expect", wanted{
			result: cel.BoolType, hint: "write a condition, for example body.amount == body.order.amount", missing: dlq.AmountMissing,
		})
	}
	for j, t := range r.Transfers {
		compiled.transfers = append(compiled.transfers, c.transfer(t, fmt.Sprintf("%s.transfers[%d]", path, j)))
	}
	return compiled
}

func (c *compiler) transfer(t config.Transfer, path string) transfer {
	outer := c.all
	c.all = reads{}
	compiled := transfer{kind: kindOf(t), expires: t.Expires, fact: t.Fact}
	if compiled.kind != ledger.KindVoid {
		c.movement(t, path, &compiled)
	}
	compiled.operation = c.expression(t.Operation, t.Pos, path+".operation", operationWanted)
	c.parent(t, path, &compiled)
	if written(t.Final) {
		compiled.final = c.expression(t.Final, t.Pos, path+".final", wanted{
			result: cel.BoolType, hint: "write true, or a condition, for example body.final_capture",
		})
	}
	c.moving.merge(c.all)
	outer.merge(c.all)
	c.all = outer
	return compiled
}

func kindOf(t config.Transfer) ledger.Kind {
	switch {
	case t.Hold:
		return ledger.KindHold
	case written(t.Captures):
		return ledger.KindCapture
	case written(t.Voids):
		return ledger.KindVoid
	case t.RunningTotal:
		return ledger.KindTotal
	}
	return ""
}

func written(t config.Text) bool { return t.Value != "" || t.Pos != (config.Pos{}) }

// movement compiles what a transfer moves or holds.
func (c *compiler) movement(t config.Transfer, path string, compiled *transfer) {
	account := wanted{result: cel.StringType, hint: `write text, for example "user:" + body.user`, literal: checkAccount}
	compiled.debit = c.expression(t.Debit, t.Pos, path+".debit", account)
	compiled.credit = c.expression(t.Credit, t.Pos, path+".credit", account)
	compiled.amount = c.expression(t.Amount, t.Pos, path+".amount", wanted{
		result: cel.IntType, hint: "use minor(x) for minor units, or major(x, asset)", missing: dlq.AmountMissing,
	})
	compiled.asset = c.expression(t.Asset, t.Pos, path+".asset", wanted{
		result: cel.StringType, hint: `write text, for example "EUR" or body.currency`, missing: dlq.CurrencyUnknown,
		literal: func(code string) *refusal { _, refused := c.money.lookup(code); return refused },
	})
	if compiled.amount != nil {
		compiled.counted = !compiled.amount.reads.major
		if r := compiled.amount.reads; r.minor && r.major && len(c.money.decimals) > 0 {
			c.fault(t.Amount.Pos, path+".amount", "has both minor() and major(), and this provider counts some currencies "+
				"with other decimals than ISO 4217; write two transfers")
		}
	}
	if debit, ok := compiled.debit.constant(); ok {
		if credit, ok := compiled.credit.constant(); ok && debit == credit {
			c.fault(t.Credit.Pos, path+".credit", "is the debit account, too: %q", debit)
		}
	}
}

// parent compiles what a transfer is about: what it gives a part of back, the hold
// that it captures or voids, or something else.
func (c *compiler) parent(t config.Transfer, path string, compiled *transfer) {
	about, key := t.Parent, ".parent"
	switch compiled.kind {
	case ledger.KindCapture:
		about, key = t.Captures, ".captures"
	case ledger.KindVoid:
		about, key = t.Voids, ".voids"
	}
	if written(t.Refunds) {
		if written(t.Parent) {
			c.fault(t.Refunds.Pos, path+".refunds", "says what parent says, too: leave parent out")
			return
		}
		about, key = t.Refunds, ".refunds"
		compiled.refund = true
	}
	if !written(about) {
		return
	}
	compiled.parent = c.expression(about, t.Pos, path+key, operationWanted)
	if strings.TrimSpace(about.Value) == strings.TrimSpace(t.Operation.Value) {
		c.fault(about.Pos, path+key, "is the operation itself; name what must be posted before it")
	}
}

// expression compiles t; nil after a fault. owner is where it is missing.
func (c *compiler) expression(t config.Text, owner config.Pos, path string, want wanted) *expression {
	if strings.TrimSpace(t.Value) == "" {
		if t.Pos != (config.Pos{}) {
			owner = t.Pos
		}
		c.fault(owner, path, "is missing")
		return nil
	}
	checked, issues := c.env.Compile(t.Value)
	if issues.Err() != nil {
		for _, e := range issues.Errors() {
			c.fault(place(t, e.Location.Line(), e.Location.Column()), path, "%s", strings.TrimSuffix(e.Message, " (in container '')"))
		}
		return nil
	}
	x := &expression{
		place:   fmt.Sprintf("%s.%s (%d:%d)", c.path, path, t.Pos.Line, t.Pos.Column),
		missing: want.missing,
		reads:   collect(checked.NativeRep()),
		text:    literalText(checked.NativeRep().Expr()),
	}
	before := len(c.faults)
	c.checkResult(t, path, checked, want)
	c.checkNames(t, path, checked.NativeRep(), x.reads)
	if x.text != nil && want.literal != nil {
		if refused := want.literal(*x.text); refused != nil {
			c.fault(t.Pos, path, "%v", refused)
		}
	}
	if len(c.faults) > before {
		return nil
	}
	program, err := plan(c.env, checked, x.reads.loops)
	if err != nil {
		c.fault(t.Pos, path, "%v", err)
		return nil
	}
	x.program = program
	c.all.merge(x.reads)
	return x
}

func (c *compiler) checkResult(t config.Text, path string, checked *cel.Ast, want wanted) {
	got := checked.OutputType()
	if got.IsExactType(want.result) || got.IsExactType(cel.DynType) && !want.exact {
		return
	}
	c.fault(t.Pos, path, "is of type %s, not %s; %s", cel.FormatCELType(got), cel.FormatCELType(want.result), want.hint)
}

// checkNames finds names that no event can have.
func (c *compiler) checkNames(t config.Text, path string, checked *ast.AST, r reads) {
	at := func(m member) config.Pos {
		l := checked.SourceInfo().GetStartLocation(m.id)
		return place(t, l.Line(), l.Column())
	}
	for _, m := range r.event {
		if !slices.Contains(eventMembers, m.name) {
			c.fault(at(m), path, "event has no %q, only %s", m.name, strings.Join(eventMembers, ", "))
		}
	}
	for _, m := range r.header {
		if canonical := http.CanonicalHeaderKey(m.name); canonical != m.name {
			c.fault(at(m), path, "header names are canonical here: write header[%q]", canonical)
		}
	}
	for _, m := range r.hidden {
		c.fault(at(m), path, "a loop variable must not be called %s", m.name)
	}
}

// fingerprint returns what an event's meaning is taken from: the explicit list,
// or else what the preset names and the transfers read.
func (c *compiler) fingerprint(explicit []config.Text, preset [][]string) reads {
	var r reads
	if len(explicit) == 0 {
		r.merge(c.moving)
		r.body = append(r.body, preset...)
		r.sort()
		return r
	}
	for i, t := range explicit {
		path := fmt.Sprintf("fingerprint[%d]", i)
		if name, ok := strings.CutPrefix(t.Value, "header:"); ok {
			if name == "" {
				c.fault(t.Pos, path, "names no header")
			}
			r.headers = append(r.headers, http.CanonicalHeaderKey(name))
			continue
		}
		names := strings.Split(strings.TrimPrefix(t.Value, "body:"), ".")
		if slices.Contains(names, "") {
			c.fault(t.Pos, path, "%q is no path; write names joined by points, for example data.object.id", t.Value)
		}
		r.body = append(r.body, names)
	}
	r.sort()
	return r
}

func (c *compiler) fault(pos config.Pos, path, format string, args ...any) {
	c.faults = append(c.faults, config.Fault{Pos: pos, Path: c.path + "." + path, Message: fmt.Sprintf(format, args...)})
}

// place is where in the file a place in an expression is; CEL counts columns from 0.
func place(t config.Text, line, column int) config.Pos {
	if line < 1 || column < 0 {
		return t.Pos
	}
	return t.At(line, column)
}

// literalText is the value of an expression that is nothing but a string.
func literalText(e ast.Expr) *string {
	if e.Kind() != ast.LiteralKind {
		return nil
	}
	s, ok := e.AsLiteral().(types.String)
	if !ok {
		return nil
	}
	text := string(s)
	return &text
}
