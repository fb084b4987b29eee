package envelope_test

import (
	"fmt"
	"time"

	"github.com/onceledger/onceledger/pkg/envelope"
)

func Example() {
	event := &envelope.Event{
		Source: "stripe",
		ID:     "evt_1 \r\nNats-Msg-Id: x",
		Type:   "charge.succeeded",
		Time:   time.Date(2024, 5, 1, 10, 0, 0, 0, time.UTC),
		Data:   []byte(`{"id":"evt_1"}`),
	}
	msg, err := event.Msg()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(msg.Subject)
	fmt.Println(msg.Header.Get("ce-id"))

	event, err = envelope.Decode(msg.Header, msg.Data)
	fmt.Printf("%q %v\n", event.ID, err)
	// Output:
	// events.stripe.charge.succeeded
	// evt_1%20%0D%0ANats-Msg-Id:%20x
	// "evt_1 \r\nNats-Msg-Id: x" <nil>
}
