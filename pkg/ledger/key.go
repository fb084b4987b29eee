package ledger

import (
	"strconv"
	"strings"
)

// OperationKey joins the parts of an operation's key, each with its length, so that
// no two lists of parts have one key: OperationKey("stripe", "", "live", "charge",
// "ch_1") is "6:stripe,0:,4:live,6:charge,4:ch_1,". These are the keys of onceledger's
// workers: the source, or the scope that it shares, the account, the mode, and what
// a rule gives to op(). Who posts the same money by another way names it alike, and
// it is posted once.
func OperationKey(scope, account, mode string, parts ...string) string {
	key := make([]byte, 0, 128)
	for _, part := range [...]string{scope, account, mode} {
		key = appendPart(key, part)
	}
	for _, part := range parts {
		key = appendPart(key, part)
	}
	return string(key)
}

func appendPart(key []byte, part string) []byte {
	key = strconv.AppendInt(key, int64(len(part)), 10)
	return append(append(append(key, ':'), part...), ',')
}

// FormatKey shows the parts of a key that OperationKey has made, without those that
// are empty: "stripe/live/charge/ch_1". Another key is shown as it is. It is for
// people: two keys may look alike.
func FormatKey(key string) string {
	var parts []string
	for rest := key; rest != ""; {
		length, after, _ := strings.Cut(rest, ":")
		size, err := strconv.Atoi(length)
		if err != nil || size < 0 || len(after) <= size || after[size] != ',' {
			return key
		}
		if size > 0 {
			parts = append(parts, after[:size])
		}
		rest = after[size+1:]
	}
	return strings.Join(parts, "/")
}
