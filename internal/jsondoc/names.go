package jsondoc

import (
	"bytes"
	"encoding/binary"
)

// member is one name of an open object.
type member struct {
	name []byte
	hash uint64
}

// linearNames is how many members of an object are compared one by one; the
// following ones go through a map, whose hashing the sender cannot foresee, so
// that an object of very many members costs no more than its bytes.
const linearNames = 48

// nameSet finds repeated names in one object, whose names start at base in the
// scanner's stack.
type nameSet struct {
	base  int
	bloom uint64
	large map[string]struct{}
}

// add reports whether name is new.
func (n *nameSet) add(s *scanner, name []byte) bool {
	if n.large != nil {
		return n.addLarge(name)
	}
	hash := nameHash(name)
	bit := uint64(1) << (hash >> 58)
	if n.bloom&bit != 0 {
		for i := n.base; i < len(s.members); i++ {
			if s.members[i].hash == hash && bytes.Equal(s.members[i].name, name) {
				return false
			}
		}
	}
	n.bloom |= bit
	s.members = append(s.members, member{name, hash})
	if len(s.members)-n.base == linearNames {
		n.large = make(map[string]struct{}, 4*linearNames)
		for _, m := range s.members[n.base:] {
			n.large[string(m.name)] = struct{}{}
		}
	}
	return true
}

func (n *nameSet) addLarge(name []byte) bool {
	if _, ok := n.large[string(name)]; ok {
		return false
	}
	n.large[string(name)] = struct{}{}
	return true
}

// nameHash mixes eight bytes at a time: it is cheap, and only a filter.
func nameHash(name []byte) uint64 {
	const odd = 0x9E3779B97F4A7C15
	h := uint64(len(name)) * odd
	for len(name) >= 8 {
		h = (h ^ binary.LittleEndian.Uint64(name)) * odd
		h ^= h >> 32
		name = name[8:]
	}
	var rest uint64
	for _, c := range name {
		rest = rest<<8 | uint64(c)
	}
	h = (h ^ rest) * odd
	return (h ^ h>>29) * odd
}
