package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// reader walks the YAML tree along the schema and gathers faults.
type reader struct {
	env     func(string) (string, bool)
	lines   []string
	anchors map[string]ast.Node
	places  map[string]Pos
	faults  Faults
}

// value is one node with its key path. at is where it is named: its key, or
// the start of a list's item.
type value struct {
	node ast.Node
	path string
	at   Pos
}

func (r *reader) fault(pos Pos, path, format string, args ...any) {
	r.faults = append(r.faults, Fault{Pos: pos, Path: path, Message: fmt.Sprintf(format, args...)})
}

// parse returns the document's root, or nil where there is none.
func (r *reader) parse(data []byte) ast.Node {
	text := strings.TrimPrefix(string(data), "\ufeff")
	// The parser counts the line ends of comments twice where they are CRLF.
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
	r.lines = strings.Split(text, "\n")
	file, err := parseBytes([]byte(text))
	if err != nil {
		r.faults = append(r.faults, syntaxFault(err))
		return nil
	}
	var root ast.Node
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.DirectiveType {
			continue
		}
		if root != nil {
			r.fault(startPos(doc.Body), "", "a second YAML document is not read; put everything into one")
			break
		}
		root = doc.Body
	}
	if root != nil {
		ast.Walk(anchorFinder(r.anchors), root)
	}
	return root
}

// parseBytes turns a panic of the parser into an error: the file is input.
func parseBytes(data []byte) (file *ast.File, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("parse: %v", r)
		}
	}()
	return parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
}

func syntaxFault(err error) Fault {
	var syntax interface {
		error
		GetToken() *token.Token
		GetMessage() string
	}
	if errors.As(err, &syntax) && syntax.GetToken() != nil {
		return Fault{Pos: tokenPos(syntax.GetToken()), Message: "YAML syntax: " + syntax.GetMessage()}
	}
	return Fault{Pos: Pos{Line: 1, Column: 1}, Message: "not readable as YAML"}
}

type anchorFinder map[string]ast.Node

// Visit implements ast.Visitor.
func (f anchorFinder) Visit(n ast.Node) ast.Visitor {
	if anchor, ok := n.(*ast.AnchorNode); ok && anchor.Name != nil {
		f[anchor.Name.GetToken().Value] = anchor.Value
	}
	return f
}

// resolve looks through anchors and aliases. Tags are refused: the schema
// knows every type.
func (r *reader) resolve(v value) (value, bool) {
	// The parser refuses an alias of an alias; the bound is for what it may learn.
	for range 4 {
		switch n := v.node.(type) {
		case *ast.AnchorNode:
			v.node = n.Value
		case *ast.AliasNode:
			name := n.Value.GetToken().Value
			target, ok := r.anchors[name]
			if !ok {
				r.fault(startPos(n), v.path, "alias *%s has no anchor &%s", name, name)
				return v, false
			}
			v.node = target
		case *ast.TagNode:
			r.fault(startPos(n), v.path, "tags like %s are not supported", n.GetToken().Value)
			return v, false
		default:
			return v, true
		}
	}
	r.fault(v.at, v.path, "alias leads to itself")
	return v, false
}

// object reads a mapping by its keys and reports unknown, repeated and missing
// ones. It returns where each known key stands.
func (r *reader) object(v value, keys keys) map[string]Pos {
	v, ok := r.resolve(v)
	if !ok {
		return nil
	}
	seen := map[string]Pos{}
	if !r.each(v, func(name string, item value) {
		field, known := keys[name]
		if !known {
			r.fault(item.at, v.path, "unknown key %q%s", name, DidYouMean(name, slices.Sorted(maps.Keys(keys))))
			return
		}
		seen[name] = item.at
		field.read(r, item)
	}) {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		if _, ok := seen[name]; keys[name].required && !ok {
			r.fault(v.at, v.path, "key %q is missing", name)
		}
	}
	return seen
}

// each calls read for each entry of a mapping whose key is not a repeated one.
func (r *reader) each(v value, read func(name string, item value)) bool {
	if isNull(v.node) {
		return true
	}
	entries, ok := v.node.(ast.MapNode)
	if !ok {
		r.fault(v.at, v.path, "must be a mapping of keys, not %s", kind(v.node))
		return false
	}
	first := map[string]Pos{}
	for iter := entries.MapRange(); iter.Next(); {
		key := iter.Key()
		at := startPos(key)
		if _, scalar := key.(ast.ScalarNode); !scalar || key.IsMergeKey() {
			r.fault(at, v.path, "merge keys and composed keys are not supported")
			continue
		}
		name := key.GetToken().Value
		item := value{node: iter.Value(), path: join(v.path, name), at: at}
		if pos, repeated := first[name]; repeated {
			r.fault(at, item.path, "key is repeated; it stands first in line %d", pos.Line)
			continue
		}
		first[name] = at
		r.places[item.path] = at
		read(name, item)
	}
	return true
}

// list calls read for each item of a sequence.
func (r *reader) list(v value, limit int, read func(item value)) {
	v, ok := r.resolve(v)
	if !ok || isNull(v.node) {
		return
	}
	sequence, ok := v.node.(*ast.SequenceNode)
	if !ok {
		r.fault(v.at, v.path, "must be a list, not %s", kind(v.node))
		return
	}
	if len(sequence.Values) > limit {
		r.fault(v.at, v.path, "has %d items; at most %d are allowed", len(sequence.Values), limit)
		return
	}
	for i, node := range sequence.Values {
		item := value{node: node, path: fmt.Sprintf("%s[%d]", v.path, i), at: startPos(node)}
		r.places[item.path] = item.at
		read(item)
	}
}

func isNull(n ast.Node) bool { return n == nil || n.Type() == ast.NullType }

// kind names a node's type for a person.
func kind(n ast.Node) string {
	switch n.(type) {
	case *ast.StringNode, *ast.LiteralNode:
		return "a string"
	case *ast.IntegerNode:
		return "a number"
	case *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a fraction"
	case *ast.BoolNode:
		return "a boolean"
	case *ast.SequenceNode:
		return "a list"
	case ast.MapNode:
		return "a mapping"
	case *ast.NullNode:
		return "nothing"
	}
	return "this"
}

// startPos is where a node begins; block mappings and sequences have the token
// of their first colon or dash instead.
func startPos(n ast.Node) Pos {
	switch m := n.(type) {
	case nil:
		return Pos{}
	case *ast.MappingNode:
		if !m.IsFlowStyle && len(m.Values) > 0 {
			return startPos(m.Values[0].Key)
		}
	case *ast.MappingValueNode:
		return startPos(m.Key)
	}
	return tokenPos(n.GetToken())
}

func tokenPos(t *token.Token) Pos {
	return Pos{Line: t.Position.Line, Column: max(t.Position.Column, 1)}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
