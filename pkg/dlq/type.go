package dlq

import "github.com/onceledger/onceledger/pkg/envelope"

// EventType is the provider's type of the event in l, empty where the message
// was no event.
func (l *Letter) EventType() string {
	e, err := envelope.Decode(l.Header, l.Data)
	if err != nil {
		return ""
	}
	return e.Type
}
