package dlq_test

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceledger/onceledger/pkg/dlq"
)

// What could not be applied is parked with its bytes and read again.
func Example() {
	conn, err := nats.Connect("nats://localhost")
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		panic(err)
	}

	ctx := context.Background()
	seq, err := dlq.Park(ctx, js, dlq.Letter{
		Source: "stripe", EventID: "evt_1", Reason: dlq.RuleError, Error: "no such key: amount",
		Attempts: 1, FirstSeen: time.Now(), OriginSeq: 42,
		Header: nats.Header{"ce-id": {"evt_1"}}, Data: []byte(`{"id":"evt_1"}`),
	})
	if err != nil {
		panic(err)
	}
	fmt.Println("parked as", seq)

	err = dlq.List(ctx, js, dlq.Filter{Reason: dlq.RuleError}, func(l *dlq.Letter) error {
		fmt.Println(l.Seq, l.Source, l.EventID, l.Error, "-", l.Hint())
		return nil
	})
	if err != nil {
		panic(err)
	}
}

func ExampleSubject() {
	fmt.Println(dlq.Subject(dlq.BadJSON, "stripe"))
	fmt.Println(dlq.Subject(dlq.BadJSON, ""))
	// Output:
	// dlq.bad_json.stripe
	// dlq.bad_json.*
}

func ExampleReason_Info() {
	info, _ := dlq.InsufficientFunds.Info()
	fmt.Println(info.Transient, info.Hint)
	// Output: true the account's limit refused the debit; fund it, then redrive
}
