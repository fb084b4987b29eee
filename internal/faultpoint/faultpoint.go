// Package faultpoint marks the moments between two steps at which a death, or a
// long sleep, is most likely to do harm. In a build with the tag torture, a file
// says at which of them the program is to end; in any other build a point is an
// empty function that the compiler removes.
//
//	faultpoint.Reach(faultpoint.Committed)
package faultpoint

// The points, named by what has just been done.
const (
	// Unstored: a delivery is verified and not yet published.
	Unstored = "receiver.unstored"
	// Stored: it has its PubAck, and its sender no answer.
	Stored = "receiver.stored"

	// Claimed: the claims are taken in Redis, nothing is in Postgres.
	Claimed = "worker.claimed"
	// Begun: an attempt of its own is committed, and not yet made.
	Begun = "worker.begun"
	// Reading: a look at another content of a decided event is counted, and not done.
	Reading = "worker.reading"
	// Reserved: the transaction holds its locks, and has written nothing.
	Reserved = "worker.reserved"
	// Committed: the money is posted, and the delivery is not acknowledged.
	Committed = "worker.committed"
	// Unlettered: the failed row is committed, its letter is not stored.
	Unlettered = "worker.unlettered"
	// Lettered: the letter is stored, and its row does not name it.
	Lettered = "worker.lettered"
	// Parked: the row names its letter, the delivery is not ended.
	Parked = "worker.parked"

	// Redriven: the row is pending again, its message is not sent.
	Redriven = "redrive.pending"
	// Sent: the message is sent, its letter is still there.
	Sent = "redrive.sent"
	// Swept: the sweep has found what is to be sent again, and not sent it.
	Swept = "keeper.swept"
)

// Judging is the point at which an event is handed to its rules. It is reached
// with the event's id: some events are to kill whoever looks at them.
const Judging = "worker.judging"

// OrderEnv names the file that says what is to happen to this program: a point
// and an action, "worker.committed kill" or "worker.reserved stop". Whoever
// comes there first removes the file and obeys. While the file with the suffix
// Deadly is there, events whose id holds "deadly" kill whoever judges them.
const (
	OrderEnv = "ONCELEDGER_FAULTPOINT"
	Deadly   = ".deadly"
)

// All lists the points at which a program may be ended, by the kind of program.
var All = map[string][]string{
	"receiver": {Unstored, Stored},
	"worker":   {Claimed, Begun, Reading, Reserved, Committed, Unlettered, Lettered, Parked, Swept},
	"redrive":  {Redriven, Sent},
}
