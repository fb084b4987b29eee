package rules

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/onceledger/onceledger/internal/jsondoc"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/ledger"
)

const (
	// maxAccount is the longest account name in bytes.
	maxAccount = 256
	// maxOperation is the longest operation key in bytes, so that it fits an index.
	maxOperation = 1024
)

// expression is one compiled expression of the file.
type expression struct {
	// place names it in errors: path, line and column.
	place   string
	missing dlq.Reason
	reads   reads
	program cel.Program
	// text is the value of a constant string.
	text *string
}

// constant returns the value of a constant string; x may be nil.
func (x *expression) constant() (string, bool) {
	if x == nil || x.text == nil {
		return "", false
	}
	return *x.text, true
}

// eval returns the value of x for one event.
func (x *expression) eval(f *facts) (ref.Val, *refusal) {
	if x.text != nil {
		return types.String(*x.text), nil
	}
	v, _, err := x.program.Eval(f)
	if err != nil {
		return nil, x.explain(f, err)
	}
	if types.IsUnknownOrError(v) {
		return nil, x.refuse(refuse(dlq.RuleError, "has no value"))
	}
	return v, nil
}

// explain gives an error of CEL its reason, by what stands at the paths x reads.
func (x *expression) explain(f *facts, err error) *refusal {
	var known *refusal
	if errors.As(err, &known) {
		return x.refuse(known)
	}
	absent, null := false, ""
	for _, path := range x.reads.body {
		v, ok := jsondoc.Lookup(f.body, path...)
		if u, bad := v.(jsondoc.Unstorable); bad {
			return x.refuse(unstorable(u).refusal())
		}
		absent = absent || !ok || v == nil
		if ok && v == nil && null == "" {
			null = "body." + strings.Join(path, ".")
		}
	}
	for _, name := range x.reads.headers {
		if _, ok := f.event.Header[name]; !ok {
			absent = true
		}
	}
	if overload, ok := types.NoSuchOverloadErr().(*types.Err); ok && null != "" && errors.Is(err, overload) {
		err = fmt.Errorf("%s is null, where a value is needed: %w", null, err)
	}
	if absent && x.missing != "" {
		return x.refuse(&refusal{x.missing, err})
	}
	return x.refuse(&refusal{dlq.RuleError, err})
}

// values names what x reads of the body, as far as it is short.
func (x *expression) values(f *facts) string {
	const most = 8
	var list strings.Builder
	for i, path := range x.reads.body {
		if i == most {
			break
		}
		if slices.ContainsFunc(x.reads.body[:i], func(p []string) bool { return slices.Equal(p, path) }) {
			continue
		}
		v, ok := jsondoc.Lookup(f.body, path...)
		name := "body." + strings.Join(path, ".")
		switch v := v.(type) {
		case string:
			fmt.Fprintf(&list, "; %s is %q", name, clip(v))
		case int64, bool:
			fmt.Fprintf(&list, "; %s is %v", name, v)
		case jsondoc.Number:
			fmt.Fprintf(&list, "; %s is %s", name, clip(string(v)))
		case nil:
			if ok {
				fmt.Fprintf(&list, "; %s is null", name)
			}
		}
	}
	return list.String()
}

// refuse adds the place of x.
func (x *expression) refuse(r *refusal) *refusal {
	return &refusal{r.reason, fmt.Errorf("%s: %w", x.place, r.err)}
}

// holds evaluates a condition.
func (x *expression) holds(f *facts) (bool, *refusal) {
	v, refused := x.eval(f)
	if refused != nil {
		return false, refused
	}
	yes, ok := v.(types.Bool)
	if !ok {
		return false, x.refuse(refuse(dlq.RuleError, "is %s, not true or false", describe(v)))
	}
	return bool(yes), nil
}

// account evaluates the name of an account.
func (x *expression) account(f *facts) (string, *refusal) {
	v, refused := x.eval(f)
	if refused != nil {
		return "", refused
	}
	switch v := v.(type) {
	case types.String:
		if refused := checkAccount(string(v)); refused != nil {
			return "", x.refuse(refused)
		}
		return string(v), nil
	case unstorable:
		return "", x.refuse(v.refusal())
	}
	return "", x.refuse(refuse(dlq.RuleError, "the account is %s, not text", describe(v)))
}

// CheckAccount returns why no rule can name this account.
func CheckAccount(name string) error {
	if refused := checkAccount(name); refused != nil {
		return refused
	}
	return nil
}

// checkAccount refuses names that cannot be stored or that an empty id has
// made: all customers without an id would share "customer:".
func checkAccount(name string) *refusal {
	switch {
	case name == "":
		return refuse(dlq.RuleError, "the account name is empty")
	case len(name) > maxAccount:
		return refuse(dlq.RuleError, "the account name has %d bytes; at most %d are allowed", len(name), maxAccount)
	case !utf8.ValidString(name):
		return refuse(dlq.UnstorableText, "the account name %q is not UTF-8", name)
	case strings.ContainsFunc(name, unicode.IsControl):
		return refuse(dlq.RuleError, "the account name %q holds a control character", name)
	case strings.HasPrefix(name, ":"), strings.HasSuffix(name, ":"), strings.Contains(name, "::"):
		return refuse(dlq.RuleError, "a part of the account name %q is empty", name)
	}
	return nil
}

// post evaluates one transfer; nil without a refusal means that it does nothing.
// The amount comes first: an event that moves no money needs no ids.
func (s *Set) post(t *transfer, f *facts) (*ledger.Transfer, *refusal) {
	posted := &ledger.Transfer{}
	var refused *refusal
	if t.kind != ledger.KindVoid {
		if posted, refused = s.movement(t, f); refused != nil {
			return nil, refused
		}
		if posted == nil {
			return s.nothing(t, f)
		}
	}
	if posted.Operation, refused = s.operation(t.operation, f); refused != nil {
		return nil, refused
	}
	if t.kind == ledger.KindTotal { // one name for all of them: each is an operation of its own
		if posted.Operation = ledger.TotalKey(posted.Operation, posted.Amount); len(posted.Operation) > maxOperation {
			return nil, t.operation.refuse(errLongKey(posted.Operation))
		}
	}
	posted.Kind, posted.Expires, posted.Fact, posted.Refund = t.kind, t.expires, t.fact, t.refund
	if t.parent != nil {
		if posted.Parent, refused = s.operation(t.parent, f); refused != nil {
			return nil, refused
		}
	}
	if t.final != nil {
		posted.Final, refused = t.final.holds(f)
	}
	return posted, refused
}

// nothing is what a transfer of amount 0 does: the last capture of a hold releases
// what is left of it, and no other does anything.
func (s *Set) nothing(t *transfer, f *facts) (*ledger.Transfer, *refusal) {
	if t.kind != ledger.KindCapture || t.final == nil {
		return nil, nil
	}
	if last, refused := t.final.holds(f); !last || refused != nil {
		return nil, refused
	}
	return s.post(&transfer{kind: ledger.KindVoid, operation: t.operation, parent: t.parent, final: t.final}, f)
}

// movement evaluates what a transfer moves or holds; nil means that it is 0.
func (s *Set) movement(t *transfer, f *facts) (*ledger.Transfer, *refusal) {
	v, refused := t.amount.eval(f)
	if refused != nil {
		return nil, refused
	}
	minor, refused := positive(v)
	if refused != nil {
		return nil, t.amount.refuse(refused)
	}
	if minor == 0 {
		return nil, nil
	}
	if v, refused = t.asset.eval(f); refused != nil {
		return nil, refused
	}
	asset, refused := s.money.asset(v)
	if refused != nil {
		return nil, t.asset.refuse(refused)
	}
	if t.counted {
		if minor, refused = s.money.counted(minor, asset); refused != nil {
			return nil, t.amount.refuse(refused)
		}
	}
	posted := &ledger.Transfer{Asset: asset.Code, Amount: minor}
	if posted.Debit, refused = t.debit.account(f); refused != nil {
		return nil, refused
	}
	if posted.Credit, refused = t.credit.account(f); refused != nil {
		return nil, refused
	}
	if posted.Debit == posted.Credit {
		return nil, t.credit.refuse(refuse(dlq.RuleError, "is the debit account, too: %q", posted.Debit))
	}
	return posted, nil
}

// operation evaluates the key of an operation.
func (s *Set) operation(x *expression, f *facts) (string, *refusal) {
	v, refused := x.eval(f)
	if refused != nil {
		return "", refused
	}
	key, refused := s.operationKey(v, f)
	if refused != nil {
		return "", x.refuse(refused)
	}
	return key, nil
}

// operationKey is the money key: scope, account and mode, then the parts of
// op(), each with its length, so that no two lists have one key.
func (s *Set) operationKey(v ref.Val, f *facts) (string, *refusal) {
	parts, ok := v.(operation)
	if !ok {
		return "", refuse(dlq.RuleError, "is %s, not op(...)", describe(v))
	}
	key := ledger.OperationKey(s.scope(), f.event.Account, f.event.Mode, parts...)
	if len(key) > maxOperation {
		return "", errLongKey(key)
	}
	return key, nil
}

func errLongKey(key string) *refusal {
	return refuse(dlq.RuleError, "the operation key has %d bytes; at most %d are allowed", len(key), maxOperation)
}

func (s *Set) scope() string { return cmp.Or(s.source.OperationScope, s.source.Name.Value) }
