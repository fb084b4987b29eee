package operator

import (
	"strconv"
	"strings"
	"time"

	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/pkg/dlq"
)

// LetterQuery selects dead letters in a person's words; empty ones select all.
type LetterQuery struct {
	Reason, Source string
	// Type and Key, the event id, are whole or prefixes that end in *.
	Type, Key string
	// Age is +24h for letters that were parked longer ago, -1h for younger ones,
	// or both with a comma.
	Age string
	// Seq is a sequence, or a range as 10-20, 10- or -20.
	Seq string
}

// filter reads the query; ages count from now.
func (q LetterQuery) filter(now time.Time) (dlq.Filter, error) {
	f := dlq.Filter{Reason: dlq.Reason(q.Reason), Source: q.Source, Type: q.Type, EventID: q.Key}
	if _, known := f.Reason.Info(); f.Reason != "" && !known {
		return f, exit.Usagef("--reason %q is unknown; there are %s", q.Reason, strings.Join(dlq.Reasons(), ", "))
	}
	for _, part := range strings.Split(q.Age, ",") {
		if q.Age == "" {
			break
		}
		span, err := time.ParseDuration(strings.TrimLeft(part, "+-"))
		switch {
		case err != nil || part == "":
			return f, exit.Usagef("--age %q is not an age: +24h is older than a day, -1h younger than an hour, +1h,-24h between", q.Age)
		case part[0] == '+':
			f.Before = now.Add(-span)
		case part[0] == '-':
			f.Since = now.Add(-span)
		default:
			return f, exit.Usagef("--age %q: write +%[1]s for older or -%[1]s for younger letters", part)
		}
	}
	if q.Seq == "" {
		return f, nil
	}
	first, last, ranged := strings.Cut(q.Seq, "-")
	if !ranged {
		last = first
	}
	var err error
	if f.From, err = sequence(first); err == nil {
		f.To, err = sequence(last)
	}
	if err != nil || f.From == 0 && f.To == 0 || f.To != 0 && f.From > f.To {
		return f, exit.Usagef("--seq %q is neither a sequence nor a range such as 10-20, 10- or -20", q.Seq)
	}
	return f, nil
}

// sequence reads an end of a range; empty is open.
func sequence(text string) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	return strconv.ParseUint(text, 10, 64)
}
