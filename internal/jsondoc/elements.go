package jsondoc

import "fmt"

// Elements returns the elements of the array at path, each as the bytes of data
// that spell it, without the space around them; they share data's memory. An
// empty path is the document itself, which then has to be the array.
//
// All of data is checked as Scan checks it, but for the member names inside the
// elements: whether those are repeated is found when the element is read, and
// is its fault alone. So a syntax error anywhere is the document's.
//
// Errors wrap ErrSyntax, ErrAmbiguous or ErrDepth; ErrNoArray if path leads to
// none, and ErrMany if it has more than most elements.
func Elements(data []byte, most int, path ...string) ([][]byte, error) {
	s := scanners.Get().(*scanner)
	defer s.release()
	s.start(data)
	e := elements{scanner: s, most: most}
	if err := e.find(path); err != nil {
		return nil, err
	}
	if err := s.end(); err != nil {
		return nil, err
	}
	if e.found == nil {
		return nil, fmt.Errorf("%w: nothing stands at %q", ErrNoArray, path)
	}
	return e.found, nil
}

// elements is a scan that notes where the elements of one array begin and end.
type elements struct {
	*scanner
	most  int
	found [][]byte
}

// find scans the value at pos, on the way to what is left of path.
func (e *elements) find(path []string) error {
	switch {
	case e.pos >= len(e.data):
	case len(path) > 0 && e.data[e.pos] == '{':
		return e.descend(path)
	case len(path) == 0 && e.data[e.pos] == '[':
		return e.collect()
	}
	at := e.pos
	if _, err := e.value(nil); err != nil {
		return err
	}
	return fmt.Errorf("%w: no array at byte %d, where %q leads", ErrNoArray, at, path)
}

// descend scans an object, and the member that path names with it.
func (e *elements) descend(path []string) error {
	if err := e.open(); err != nil {
		return err
	}
	if e.next('}') {
		e.depth--
		return nil
	}
	set := nameSet{base: len(e.members)}
	for {
		name, err := e.name(&set)
		if err != nil {
			return err
		}
		if string(name) == path[0] {
			err = e.find(path[1:])
		} else {
			_, err = e.value(nil)
		}
		if err != nil {
			return err
		}
		if e.next(',') {
			continue
		}
		if !e.next('}') {
			return e.unexpected("where a comma or } is due")
		}
		e.members, e.depth = e.members[:set.base], e.depth-1
		return nil
	}
}

// name steps over a member name on the way, which must be new, and its colon.
func (e *elements) name(set *nameSet) ([]byte, error) {
	e.space()
	if e.pos >= len(e.data) || e.data[e.pos] != '"' {
		return nil, e.unexpected("where a member name is due")
	}
	at := e.pos
	raw, plain, err := e.text()
	if err != nil {
		return nil, err
	}
	name := decodeName(raw, plain)
	if !set.add(e.scanner, name) {
		return nil, fmt.Errorf("%w: %q at byte %d", ErrAmbiguous, clip(name), at)
	}
	if !e.next(':') {
		return nil, e.unexpected("where a colon is due")
	}
	e.space()
	return name, nil
}

func (e *elements) collect() error {
	if err := e.open(); err != nil {
		return err
	}
	e.found = [][]byte{}
	if e.next(']') {
		e.depth--
		return nil
	}
	for {
		e.space()
		start := e.pos
		e.repeats = true
		_, err := e.value(nil)
		e.repeats = false
		switch {
		case err != nil:
			return err
		case len(e.found) == e.most:
			return fmt.Errorf("%w: more than %d", ErrMany, e.most)
		}
		e.found = append(e.found, e.data[start:e.pos:e.pos])
		if e.next(',') {
			continue
		}
		if !e.next(']') {
			return e.unexpected("where a comma or ] is due")
		}
		e.depth--
		return nil
	}
}
