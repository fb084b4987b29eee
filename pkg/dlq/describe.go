package dlq

import (
	"slices"

	"github.com/onceledger/onceledger/pkg/envelope"
)

// EventType is the provider's type of the event in l, empty where the message
// was no event.
func (l *Letter) EventType() string {
	e, err := envelope.Decode(l.Header, l.Data)
	if err != nil {
		return ""
	}
	return e.Type
}

// Reasons returns the words of all declared reasons, sorted.
func Reasons() []string {
	words := make([]string, 0, len(infos))
	for r := range infos {
		words = append(words, string(r))
	}
	slices.Sort(words)
	return words
}
