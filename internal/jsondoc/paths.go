package jsondoc

// Paths says which parts of a document to build. It is immutable and safe for
// concurrent use.
type Paths struct {
	whole   bool
	members []pathMember
}

type pathMember struct {
	name string
	next *Paths
}

// everything keeps whatever stands below it.
var everything = &Paths{whole: true}

// NewPaths returns the union of paths, each a list of member names from the
// root. What a path ends at is kept whole; an empty path keeps everything, and
// no path at all keeps nothing. A path that meets an array or a scalar before
// its end keeps that whole.
func NewPaths(paths ...[]string) *Paths {
	if len(paths) == 0 {
		return nil
	}
	root := &Paths{}
	for _, path := range paths {
		root.add(path)
	}
	return root
}

func (p *Paths) add(path []string) {
	for _, name := range path {
		if p.whole {
			return
		}
		next := p.find(name)
		if next == nil {
			next = &Paths{}
			p.members = append(p.members, pathMember{name, next})
		}
		p = next
	}
	p.whole, p.members = true, nil
}

func (p *Paths) find(name string) *Paths {
	for i := range p.members {
		if p.members[i].name == name {
			return p.members[i].next
		}
	}
	return nil
}

// member returns what to keep below the member called name, nil for nothing,
// and the name as a string.
func (p *Paths) member(name []byte) (string, *Paths) {
	if p == nil {
		return "", nil
	}
	if p.whole {
		return string(name), everything
	}
	for i := range p.members {
		if p.members[i].name == string(name) {
			return p.members[i].name, p.members[i].next
		}
	}
	return "", nil
}
