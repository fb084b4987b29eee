package rules

import (
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"

	"github.com/onceledger/onceledger/internal/jsondoc"
)

// comparison replaces CEL's comparing operators, which would silently call an
// int and a decimal different: here 100, 100.0 and 1e2 are equal, by exact
// value, on either side. Within lists and maps a decimal equals only what its
// own Equal says, and `in` refuses decimals.
//
// It does not show that it is a call: CEL would optimise `in` back into its own.
type comparison struct {
	call    interpreter.InterpretableCall
	compare func(l, r ref.Val) ref.Val
}

// compareExactly decorates a program with comparison.
func compareExactly(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	call, ok := i.(interpreter.InterpretableCall)
	if !ok || len(call.Args()) != 2 {
		return i, nil
	}
	compare, ok := comparers[call.Function()]
	if !ok {
		return i, nil
	}
	return &comparison{call, compare}, nil
}

// ID returns the node's id.
func (c *comparison) ID() int64 { return c.call.ID() }

// Exec evaluates both sides, then compares.
func (c *comparison) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	args := c.call.Args()
	l := args[0].Exec(frame)
	if types.IsUnknownOrError(l) {
		return l
	}
	r := args[1].Exec(frame)
	if types.IsUnknownOrError(r) {
		return r
	}
	result := types.LabelErrNode(c.ID(), c.compare(l, r))
	if costs := frame.CostTracker(); costs != nil {
		costs.EvalBinary(frame, c.ID(), c.call, l, r, result)
	}
	return result
}

// Eval is Exec for the older interface.
func (c *comparison) Eval(vars interpreter.Activation) ref.Val {
	return interpreter.EvalActivation(vars, c.Exec)
}

var comparers = map[string]func(l, r ref.Val) ref.Val{
	operators.Equals: equal,
	operators.NotEquals: func(l, r ref.Val) ref.Val {
		if eq, ok := equal(l, r).(types.Bool); ok {
			return !eq
		}
		return equal(l, r)
	},
	operators.Less:          ordered(func(order types.Int) bool { return order < 0 }),
	operators.LessEquals:    ordered(func(order types.Int) bool { return order <= 0 }),
	operators.Greater:       ordered(func(order types.Int) bool { return order > 0 }),
	operators.GreaterEquals: ordered(func(order types.Int) bool { return order >= 0 }),
	operators.In:            in,
}

func equal(l, r ref.Val) ref.Val {
	if u, ok := eitherUnstorable(l, r); ok {
		return u.refusal().value()
	}
	if order := exactOrder(l, r); order != nil {
		if order, ok := order.(types.Int); ok {
			return types.Bool(order == 0)
		}
		return order
	}
	if isDecimal(l) || isDecimal(r) {
		return types.False
	}
	return types.Equal(l, r)
}

func ordered(holds func(types.Int) bool) func(l, r ref.Val) ref.Val {
	return func(l, r ref.Val) ref.Val {
		if u, ok := eitherUnstorable(l, r); ok {
			return u.refusal().value()
		}
		order := exactOrder(l, r)
		if order == nil {
			comparer, ok := l.(traits.Comparer)
			if !ok {
				return types.MaybeNoSuchOverloadErr(l)
			}
			order = comparer.Compare(r)
		}
		if order, ok := order.(types.Int); ok {
			return types.Bool(holds(order))
		}
		return order
	}
}

func in(element, container ref.Val) ref.Val {
	if u, ok := element.(unstorable); ok {
		return u.refusal().value()
	}
	c, ok := container.(traits.Container)
	if !ok {
		return types.MaybeNoSuchOverloadErr(container)
	}
	if isDecimal(element) {
		return types.NewErr("%q is a decimal, which `in` does not take; use ==", string(element.(decimal)))
	}
	return c.Contains(element)
}

// exactOrder compares two numbers of which one is a decimal; nil for others.
func exactOrder(l, r ref.Val) ref.Val {
	if !isDecimal(l) && !isDecimal(r) {
		return nil
	}
	a, okA := number(l)
	b, okB := number(r)
	if !okA || !okB {
		return nil
	}
	order, ok := jsondoc.Compare(a, b)
	if !ok {
		return types.NewErr("an exponent has too many digits to compare %q with %q", clip(string(a)), clip(string(b)))
	}
	return types.Int(order)
}

func isDecimal(v ref.Val) bool {
	_, ok := v.(decimal)
	return ok
}

func eitherUnstorable(l, r ref.Val) (unstorable, bool) {
	if u, ok := l.(unstorable); ok {
		return u, true
	}
	u, ok := r.(unstorable)
	return u, ok
}
