package config

import (
	"fmt"
	"unique"
)

// hidden is what every secret prints as.
const hidden = "[secret]"

// NewSecret hides value.
func NewSecret(value string) Secret {
	if value == "" {
		return Secret{}
	}
	return Secret{value: unique.Make(value)}
}

// Reveal returns the hidden value; never log it or put it in an error.
func (s Secret) Reveal() string {
	if s.IsZero() {
		return ""
	}
	return s.value.Value()
}

// IsZero reports whether there is nothing to hide.
func (s Secret) IsZero() bool { return s == Secret{} }

// String implements fmt.Stringer.
func (Secret) String() string { return hidden }

// GoString implements fmt.GoStringer.
func (Secret) GoString() string { return hidden }

// Format implements fmt.Formatter, so that no verb prints the value.
func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hidden)) }

// MarshalText implements encoding.TextMarshaler, which covers YAML, map keys
// and most loggers.
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// MarshalJSON implements json.Marshaler.
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + hidden + `"`), nil }

// MarshalYAML implements the YAML marshaler of goccy/go-yaml.
func (Secret) MarshalYAML() (any, error) { return hidden, nil }
