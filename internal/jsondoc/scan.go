package jsondoc

import (
	"fmt"
	"sync"
)

// scanner is one pass over a document; pos is the next byte.
type scanner struct {
	data  []byte
	pos   int
	depth int

	// members is a stack: the names seen so far in every open object.
	members []member
	// repeats lets names be repeated: they are somebody else's to compare.
	repeats bool
}

// scanners are kept for their stack of members.
var scanners = sync.Pool{New: func() any { return new(scanner) }}

// release forgets the document and gives the scanner back, unless an unusual
// document has made its stack large.
func (s *scanner) release() {
	const most = 512
	if cap(s.members) > most {
		return
	}
	clear(s.members[:cap(s.members)])
	*s = scanner{members: s.members[:0]}
	scanners.Put(s)
}

// start steps over a byte order mark and space, to the document.
func (s *scanner) start(data []byte) {
	s.data = data
	if len(data) >= 3 && data[0] == 0xEF && data[1] == 0xBB && data[2] == 0xBF {
		s.pos = 3
	}
	s.space()
}

// end checks that nothing but space follows the document.
func (s *scanner) end() error {
	s.space()
	if s.pos < len(s.data) {
		return s.unexpected("after the document")
	}
	return nil
}

// value reads the value at pos and builds what keep names of it.
func (s *scanner) value(keep *Paths) (any, error) {
	if s.pos >= len(s.data) {
		return nil, s.unexpected("where a value is due")
	}
	switch c := s.data[s.pos]; c {
	case '{':
		return s.object(keep)
	case '[':
		return s.array(keep)
	case '"':
		raw, plain, err := s.text()
		if err != nil || keep == nil {
			return nil, err
		}
		return decodeValue(raw, plain), nil
	case 't':
		return s.literal("true", true)
	case 'f':
		return s.literal("false", false)
	case 'n':
		return s.literal("null", nil)
	default:
		if c == '-' || '0' <= c && c <= '9' {
			return s.number(keep)
		}
		return nil, s.unexpected("where a value is due")
	}
}

func (s *scanner) object(keep *Paths) (any, error) {
	if err := s.open(); err != nil {
		return nil, err
	}
	var built map[string]any
	if keep != nil {
		built = make(map[string]any)
	}
	if s.next('}') {
		return s.closeObject(built, keep), nil
	}
	set := nameSet{base: len(s.members)}
	for {
		s.space()
		if s.pos >= len(s.data) || s.data[s.pos] != '"' {
			return nil, s.unexpected("where a member name is due")
		}
		at := s.pos
		raw, plain, err := s.text()
		if err != nil {
			return nil, err
		}
		name := decodeName(raw, plain)
		if !s.repeats && !set.add(s, name) {
			return nil, fmt.Errorf("%w: %q at byte %d", ErrAmbiguous, clip(name), at)
		}
		if !s.next(':') {
			return nil, s.unexpected("where a colon is due")
		}
		s.space()
		key, below := keep.member(name)
		v, err := s.value(below)
		if err != nil {
			return nil, err
		}
		if below != nil {
			built[key] = v
		}
		if s.next(',') {
			continue
		}
		if !s.next('}') {
			return nil, s.unexpected("where a comma or } is due")
		}
		s.members = s.members[:set.base]
		return s.closeObject(built, keep), nil
	}
}

func (s *scanner) closeObject(built map[string]any, keep *Paths) any {
	s.depth--
	if keep == nil {
		return nil
	}
	return built
}

func (s *scanner) array(keep *Paths) (any, error) {
	if err := s.open(); err != nil {
		return nil, err
	}
	var built []any
	if keep != nil {
		keep, built = everything, []any{}
	}
	if s.next(']') {
		return s.closeArray(built, keep), nil
	}
	for {
		s.space()
		v, err := s.value(keep)
		if err != nil {
			return nil, err
		}
		if keep != nil {
			built = append(built, v)
		}
		if s.next(',') {
			continue
		}
		if !s.next(']') {
			return nil, s.unexpected("where a comma or ] is due")
		}
		return s.closeArray(built, keep), nil
	}
}

func (s *scanner) closeArray(built []any, keep *Paths) any {
	s.depth--
	if keep == nil {
		return nil
	}
	return built
}

// open steps over a bracket into one more level.
func (s *scanner) open() error {
	if s.depth == MaxDepth {
		return fmt.Errorf("%w: over %d levels at byte %d", ErrDepth, MaxDepth, s.pos)
	}
	s.depth++
	s.pos++
	return nil
}

// next skips white space and steps over c if it follows.
func (s *scanner) next(c byte) bool {
	s.space()
	if s.pos < len(s.data) && s.data[s.pos] == c {
		s.pos++
		return true
	}
	return false
}

func (s *scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

func (s *scanner) literal(word string, v any) (any, error) {
	for i := range len(word) {
		if s.pos >= len(s.data) || s.data[s.pos] != word[i] {
			return nil, s.unexpected("in a literal")
		}
		s.pos++
	}
	return v, nil
}

// unexpected describes the byte at pos.
func (s *scanner) unexpected(where string) error {
	if s.pos >= len(s.data) {
		return fmt.Errorf("%w: end of data %s", ErrSyntax, where)
	}
	return fmt.Errorf("%w: %q %s at byte %d", ErrSyntax, s.data[s.pos:s.pos+1], where, s.pos)
}
