package rules

import (
	"slices"
	"strconv"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// reads is what an expression may look at: paths of the body, as jsondoc has
// them, and names of request headers. A path that goes on by a computed name or
// through a loop ends there, and stands for all below it.
type reads struct {
	body    [][]string
	headers []string
	// allHeaders is set where a header's name is computed.
	allHeaders bool
	// event and header are members by constant name, hidden the loop variables
	// that are called like one of the variables.
	event, header, hidden []member
	// minor and major are set where these functions are called.
	minor, major bool
	// loops is set where an evaluation may take more than one look at each byte of
	// the event for each call in the expression.
	loops bool
}

// linear are the functions that look at their arguments once, and give back no more
// than they were given.
var linear = []string{
	operators.Conditional, operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot,
	operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals,
	operators.Add, operators.Subtract, operators.Multiply, operators.Divide, operators.Modulo, operators.Negate,
	operators.In, operators.Index,
	"size", "string", "int", "startsWith", "endsWith", "contains", "lowerAscii", "upperAscii", "trim",
	"op", "minor", "major",
}

type member struct {
	name string
	id   int64
}

// collect returns what the checked expression may read.
func collect(checked *ast.AST) reads {
	var r reads
	r.walk(checked.Expr())
	return r
}

func (r *reads) walk(e ast.Expr) {
	if root, path, rest := chain(e); root != "" {
		r.add(root, path, e.ID())
		for _, computed := range rest {
			r.walk(computed)
		}
		return
	}
	switch e.Kind() {
	case ast.SelectKind:
		r.walk(e.AsSelect().Operand())
	case ast.CallKind:
		name := e.AsCall().FunctionName()
		r.minor = r.minor || name == "minor"
		r.major = r.major || name == "major"
		r.loops = r.loops || !slices.Contains(linear, name)
		if e.AsCall().IsMemberFunction() {
			r.walk(e.AsCall().Target())
		}
		for _, arg := range e.AsCall().Args() {
			r.walk(arg)
		}
	case ast.ListKind:
		for _, element := range e.AsList().Elements() {
			r.walk(element)
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			r.walk(entry.AsMapEntry().Key())
			r.walk(entry.AsMapEntry().Value())
		}
	case ast.StructKind:
		for _, field := range e.AsStruct().Fields() {
			r.walk(field.AsStructField().Value())
		}
	case ast.ComprehensionKind:
		r.loops = true
		c := e.AsComprehension()
		for _, name := range []string{c.IterVar(), c.IterVar2()} {
			if name == "body" || name == "header" || name == "event" {
				r.hidden = append(r.hidden, member{name, e.ID()})
			}
		}
		for _, part := range []ast.Expr{c.IterRange(), c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result()} {
			r.walk(part)
		}
	}
}

// chain follows selections by constant names down to a variable. What comes
// after the first computed name is dropped from path, and the computed names
// are returned to be walked; root is empty if e is not such a chain.
func chain(e ast.Expr) (root string, path []string, computed []ast.Expr) {
	switch e.Kind() {
	case ast.IdentKind:
		switch name := e.AsIdent(); name {
		case "body", "header", "event":
			return name, nil, nil
		}
		return "", nil, nil
	case ast.SelectKind:
		s := e.AsSelect()
		root, path, computed = chain(s.Operand())
		if root != "" && len(computed) == 0 {
			path = append(path, s.FieldName())
		}
		return root, path, computed
	case ast.CallKind:
		c := e.AsCall()
		if c.FunctionName() != operators.Index {
			return "", nil, nil
		}
		root, path, computed = chain(c.Args()[0])
		if root == "" {
			return "", nil, nil
		}
		if name, ok := constantName(c.Args()[1]); ok && len(computed) == 0 {
			return root, append(path, name), nil
		}
		return root, path, append(computed, c.Args()[1])
	}
	return "", nil, nil
}

// constantName is the member name, or the index of an array, that e is.
func constantName(e ast.Expr) (string, bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	switch v := e.AsLiteral().(type) {
	case types.String:
		return string(v), true
	case types.Int:
		return strconv.FormatInt(int64(v), 10), true
	}
	return "", false
}

func (r *reads) add(root string, path []string, id int64) {
	switch {
	case root == "body":
		r.body = append(r.body, path)
	case root == "header" && len(path) == 0:
		r.allHeaders = true
	case root == "header":
		r.headers = append(r.headers, path[0])
		r.header = append(r.header, member{path[0], id})
	case len(path) > 0:
		r.event = append(r.event, member{path[0], id})
	}
}

// merge adds what other reads.
func (r *reads) merge(other reads) {
	r.body = append(r.body, other.body...)
	r.headers = append(r.headers, other.headers...)
	r.allHeaders = r.allHeaders || other.allHeaders
}

// sort orders r and drops what is there twice, so that the order of the rules
// does not matter.
func (r *reads) sort() {
	slices.SortFunc(r.body, slices.Compare)
	r.body = slices.CompactFunc(r.body, slices.Equal)
	slices.Sort(r.headers)
	r.headers = slices.Compact(r.headers)
}
