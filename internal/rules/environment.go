package rules

import (
	"fmt"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/ext"

	"github.com/onceledger/onceledger/pkg/envelope"
)

const (
	// costLimit bounds one evaluation: loops over some ten thousand elements
	// pass, and what does not pass would take a tenth of a second.
	costLimit = 1_000_000
	// maxParts is how many parts op() takes after its kind.
	maxParts = 8
)

// eventMembers are the members of the variable event.
var eventMembers = []string{"id", "type", "source", "account", "mode"}

// newEnv declares what expressions may use.
func newEnv(m *money) (*cel.Env, error) {
	texts := cel.MapType(cel.StringType, cel.StringType)
	env, err := cel.NewEnv(
		ext.Strings(),
		cel.CustomTypeAdapter(adapter{}),
		cel.Variable("body", cel.DynType),
		cel.Variable("event", texts),
		cel.Variable("header", texts),
		cel.Function("op", operationOverloads()...),
		cel.Function("minor",
			cel.Overload("minor_dyn", []*cel.Type{cel.DynType}, cel.IntType, cel.UnaryBinding(m.minor))),
		cel.Function("major",
			cel.Overload("major_dyn_dyn", []*cel.Type{cel.DynType, cel.DynType}, cel.IntType, cel.BinaryBinding(m.major))),
		cel.Function("string",
			cel.Overload("decimal_to_string", []*cel.Type{decimalType}, cel.StringType, cel.UnaryBinding(func(d ref.Val) ref.Val {
				return d.ConvertToType(cel.StringType)
			}))),
	)
	if err != nil {
		return nil, fmt.Errorf("declare expressions: %w", err)
	}
	return env, nil
}

func operationOverloads() []cel.FunctionOpt {
	var overloads []cel.FunctionOpt
	args := []*cel.Type{cel.StringType}
	for n := 1; n <= maxParts; n++ {
		args = append(args, cel.DynType)
		overloads = append(overloads,
			cel.Overload(fmt.Sprintf("op_%d", n), append([]*cel.Type(nil), args...), operationType, cel.FunctionBinding(newOperation)))
	}
	return overloads
}

// plan makes a checked expression executable. Only one that may loop is counted while
// it runs: what else there is costs at most what the event and the expression are long.
func plan(env *cel.Env, checked *cel.Ast, loops bool) (cel.Program, error) {
	options := []cel.ProgramOption{cel.EvalOptions(cel.OptOptimize), cel.CustomDecoratorV2(compareExactly)}
	if loops {
		options = append(options, cel.CostLimit(costLimit))
	}
	return env.Program(checked, options...)
}

// facts are the variables of one event.
type facts struct {
	event *envelope.Event
	body  any
}

// ResolveName returns a variable.
func (f *facts) ResolveName(name string) (any, bool) {
	switch name {
	case "body":
		return f.body, true
	case "header":
		return f.event.Header, true
	case "event":
		return (*eventTexts)(f.event), true
	}
	return nil, false
}

// Parent returns nil: there is no outer scope.
func (f *facts) Parent() cel.Activation { return nil }

// eventTexts is the variable event. CEL asks it for members by name; only where
// it is used as a whole does it become a map.
type eventTexts envelope.Event

// FindStringKey returns a member.
func (e *eventTexts) FindStringKey(name string) (any, bool) {
	switch name {
	case "id":
		return e.ID, true
	case "type":
		return e.Type, true
	case "source":
		return e.Source, true
	case "account":
		return e.Account, true
	case "mode":
		return e.Mode, true
	}
	return nil, false
}

func (e *eventTexts) texts() map[string]string {
	return map[string]string{"id": e.ID, "type": e.Type, "source": e.Source, "account": e.Account, "mode": e.Mode}
}
