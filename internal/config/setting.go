package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// keys is the schema of one mapping.
type keys map[string]field

// field is the schema of one key.
type field struct {
	read     func(r *reader, v value)
	required bool

	// env is the variable that wins over the file, and override what takes it.
	env      string
	override func(r *reader, value string)

	// bounds says what the documentation has to: "1 to 5".
	bounds string

	// under is the schema of a nested mapping, or of each item where suffix
	// says how items are written: "[]" or ".NAME".
	under  func() keys
	suffix string
}

func (f field) require() field {
	f.required = true
	return f
}

func mapping(k keys) field {
	return field{
		read:  func(r *reader, v value) { r.object(v, k) },
		under: func() keys { return k },
	}
}

// items is a list of mappings; schema returns the keys that fill one of them.
func items[T any](target *[]T, limit int, schema func(item *T, at Pos) keys) field {
	return field{
		read: func(r *reader, v value) {
			r.list(v, limit, func(item value) {
				var t T
				r.object(item, schema(&t, item.at))
				*target = append(*target, t)
			})
		},
		under:  func() keys { return schema(new(T), Pos{}) },
		suffix: "[]",
	}
}

func integer(target *int, low, high int) field {
	return field{
		read: func(r *reader, v value) {
			if n, ok := r.integer(v, low, high); ok {
				*target = n
			}
		},
		bounds: fmt.Sprintf("%d to %d", low, high),
	}
}

func boolean(target *bool) field {
	return field{read: func(r *reader, v value) {
		if b, ok := r.boolean(v); ok {
			*target = b
		}
	}}
}

func duration(target *time.Duration, low, high time.Duration) field {
	return field{
		read: func(r *reader, v value) {
			if d, ok := r.duration(v, low, high); ok {
				*target = d
			}
		},
		bounds: formatDuration(low) + " to " + formatDuration(high),
	}
}

func size(target *int64, low, high int64) field {
	return field{
		read: func(r *reader, v value) {
			if n, ok := r.size(v, low, high); ok {
				*target = n
			}
		},
		bounds: formatSize(low) + " to " + formatSize(high),
	}
}

// expression is CEL; whoever compiles it reports what is wrong with it.
func expression(target *Text) field {
	return field{read: func(r *reader, v value) {
		if t, ok := r.text(v, true); ok {
			*target = t
		}
	}}
}

func text(target *Text) field {
	return field{read: func(r *reader, v value) {
		if t, ok := r.text(v, false); ok {
			*target = t
		}
	}}
}

func str(target *string) field {
	return field{read: func(r *reader, v value) {
		if t, ok := r.text(v, false); ok {
			*target = t.Value
		}
	}}
}

func oneOf(target *string, words ...string) field {
	want := "one of " + strings.Join(words, ", ")
	if len(words) == 1 {
		want = words[0]
	}
	return field{
		read: func(r *reader, v value) {
			t, ok := r.text(v, false)
			if !ok {
				return
			}
			if !slices.Contains(words, t.Value) {
				r.fault(t.Pos, v.path, "%q is not %s%s", t.Value, want, DidYouMean(t.Value, words))
				return
			}
			*target = t.Value
		},
		bounds: strings.Join(words, ", "),
	}
}

func matching(target *string, pattern *regexp.Regexp, want string) field {
	return field{read: func(r *reader, v value) {
		t, ok := r.text(v, false)
		if !ok {
			return
		}
		if !pattern.MatchString(t.Value) {
			r.fault(t.Pos, v.path, "%q is not %s", t.Value, want)
			return
		}
		*target = t.Value
	}}
}

// address is a host:port to listen on, where the variable env wins.
func address(target *string, env string) field {
	return setting(env, false, checkAddress, func(s string) { *target = s })
}

// setting is a string that the variable env overrides. Where it does, what the
// file says is not looked at, so that its own variables need not be set.
func setting(env string, expand bool, check func(string) error, set func(string)) field {
	return field{
		env: env,
		override: func(r *reader, s string) {
			if err := check(s); err != nil {
				r.fault(Pos{}, env, "%s", err)
				return
			}
			set(s)
		},
		read: func(r *reader, v value) {
			if s, ok := r.env(env); ok && s != "" {
				return
			}
			t, ok := r.text(v, false)
			if !ok {
				return
			}
			if expand {
				if t.Value, ok = r.expand(t, v.path); !ok {
					return
				}
			}
			if err := check(t.Value); err != nil {
				r.fault(t.Pos, v.path, "%s", err)
				return
			}
			set(t.Value)
		},
	}
}

func checkAddress(address string) error {
	_, port, err := net.SplitHostPort(address)
	if strings.Contains(address, "${") {
		return errors.New("variables are expanded in secrets, public keys and URLs only")
	}
	if err != nil {
		return fmt.Errorf("%q is not host:port, for example 127.0.0.1:8080", address)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("port %q is not a number from 0 to 65535", port)
	}
	return nil
}

// checkURL checks each of the comma-separated URLs. They may hold passwords,
// so that errors never show them.
func checkURL(many bool, schemes ...string) func(string) error {
	return func(text string) error {
		parts := []string{text}
		if many {
			parts = strings.Split(text, ",")
		}
		for _, part := range parts {
			scheme, rest, ok := strings.Cut(strings.TrimSpace(part), "://")
			if !ok || !slices.Contains(schemes, scheme) {
				return fmt.Errorf("must start with one of %s://", strings.Join(schemes, "://, "))
			}
			// Postgres knows lists of hosts, which net/url does not read.
			host, _, _ := strings.Cut(rest, "/")
			if _, err := url.Parse(part); rest == "" || err != nil && !strings.Contains(host, ",") {
				return fmt.Errorf("is not a URL like %s://host:port", scheme)
			}
		}
		return nil
	}
}
