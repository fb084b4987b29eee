package jsondoc

import (
	"fmt"
	"strconv"
)

// number steps over the number at pos.
func (s *scanner) number(keep *Paths) (any, error) {
	start := s.pos
	if s.data[s.pos] == '-' {
		s.pos++
	}
	zero := s.pos < len(s.data) && s.data[s.pos] == '0'
	digits := s.digits()
	if digits == 0 || zero && digits > 1 {
		return nil, fmt.Errorf("%w: bad number at byte %d", ErrSyntax, start)
	}
	integer := true
	if s.pos < len(s.data) && s.data[s.pos] == '.' {
		s.pos++
		if integer = false; s.digits() == 0 {
			return nil, fmt.Errorf("%w: bad number at byte %d", ErrSyntax, start)
		}
	}
	if s.pos < len(s.data) && s.data[s.pos]|0x20 == 'e' {
		s.pos++
		if s.pos < len(s.data) && (s.data[s.pos] == '+' || s.data[s.pos] == '-') {
			s.pos++
		}
		if integer = false; s.digits() == 0 {
			return nil, fmt.Errorf("%w: bad number at byte %d", ErrSyntax, start)
		}
	}
	raw := s.data[start:s.pos]
	if len(raw) > MaxNumber {
		return nil, fmt.Errorf("%w: number of %d bytes at byte %d", ErrSyntax, len(raw), start)
	}
	if keep == nil {
		return nil, nil
	}
	if integer {
		if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
			return n, nil
		}
	}
	return Number(raw), nil
}

// digits steps over a run of digits and returns its length.
func (s *scanner) digits() int {
	start := s.pos
	for s.pos < len(s.data) && '0' <= s.data[s.pos] && s.data[s.pos] <= '9' {
		s.pos++
	}
	return s.pos - start
}

// clip shortens a name for an error message.
func clip(name []byte) []byte {
	const most = 64
	if len(name) > most {
		return name[:most]
	}
	return name
}
