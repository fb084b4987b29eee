package config

import (
	"regexp"
	"strings"
)

// secret reads one secret. Its value is in no fault.
func (r *reader) secret(v value) (Secret, bool) {
	t, ok := r.text(v, false)
	if !ok {
		return Secret{}, false
	}
	t.Value = strings.TrimSuffix(t.Value, "\n") // of a block
	s, ok := r.expand(t, v.path)
	switch {
	case !ok:
		return Secret{}, false
	case strings.TrimSpace(s) != s:
		r.fault(t.Pos, v.path, "secret starts or ends with white space")
		return Secret{}, false
	}
	return NewSecret(s), true
}

var (
	variable     = regexp.MustCompile(`\$\{[^}]*\}?`)
	variableName = regexp.MustCompile(`^\$\{[A-Za-z_][A-Za-z0-9_]*\}$`)
)

// expand replaces every ${NAME} by its variable; the result is not expanded again.
func (r *reader) expand(t Text, path string) (string, bool) {
	ok := true
	expanded := variable.ReplaceAllStringFunc(t.Value, func(match string) string {
		if !variableName.MatchString(match) {
			r.fault(t.Pos, path, "write variables as ${NAME}, with letters, digits and _")
			ok = false
			return ""
		}
		name := match[2 : len(match)-1]
		s, set := r.env(name)
		if !set || s == "" {
			r.fault(t.Pos, path, "variable %s is not set or empty", name)
			ok = false
		}
		return s
	})
	return expanded, ok
}
