package receiver

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"github.com/synadia-io/orbit.go/jetstreamext"
	"golang.org/x/sync/errgroup"
)

// BenchmarkCommit shows where an atomic batch begins to pay against single
// publishes, one after the other and pipelined; what costs begins with is read from it.
func BenchmarkCommit(b *testing.B) {
	r := newRig(b)
	body := make([]byte, 1024)
	messages := func(n int) []*nats.Msg {
		msgs := make([]*nats.Msg, n)
		for i := range msgs {
			msgs[i] = nats.NewMsg("events." + r.name + ".bench")
			msgs[i].Data = body
		}
		return msgs
	}
	for _, n := range []int{1, 4, 8, 12, 16, 24, 32, 128} {
		run := func(style string, store func([]*nats.Msg) error) {
			b.Run(fmt.Sprintf("%s/%d", style, n), func(b *testing.B) {
				began := time.Now()
				for b.Loop() {
					require.NoError(b, store(messages(n)))
				}
				b.ReportMetric(float64(b.N*n)/time.Since(began).Seconds(), "msg/s")
			})
		}
		run("one after the other", func(msgs []*nats.Msg) error {
			for _, msg := range msgs {
				if _, err := r.conn.JS.PublishMsg(b.Context(), msg); err != nil {
					return err
				}
			}
			return nil
		})
		run("pipelined", func(msgs []*nats.Msg) error {
			var group errgroup.Group
			group.SetLimit(inflightSingles)
			for _, msg := range msgs {
				group.Go(func() error { _, err := r.conn.JS.PublishMsg(b.Context(), msg); return err })
			}
			return group.Wait()
		})
		run("async", func(msgs []*nats.Msg) error {
			for _, msg := range msgs {
				if _, err := r.conn.JS.PublishMsgAsync(msg); err != nil {
					return err
				}
			}
			<-r.conn.JS.PublishAsyncComplete()
			return nil
		})
		run("batch", func(msgs []*nats.Msg) error {
			_, err := jetstreamext.PublishMsgBatch(b.Context(), r.conn.JS, msgs, jetstreamext.BatchFlowControl{AckFirst: false})
			return err
		})
		run("batch, first acked", func(msgs []*nats.Msg) error {
			_, err := jetstreamext.PublishMsgBatch(b.Context(), r.conn.JS, msgs, jetstreamext.BatchFlowControl{AckFirst: true, AckTimeout: time.Second})
			return err
		})
	}
}
