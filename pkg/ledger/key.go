package ledger

import "strconv"

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
