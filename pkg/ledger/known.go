package ledger

import (
	"hash/maphash"
	"sync"
)

// maxKnown bounds each of the two generations of a Known.
const maxKnown = 1 << 18

// Known remembers accounts of one database that are there for good, since no account
// is ever deleted, so that batches need not open them first. It holds 512 Ki of them
// in some 10 MB, and forgets those that were not asked for the longest. Nothing
// relies on it: a batch that does not find what was promised, in a database that was
// restored, say, is ErrRace, and opens it when it is tried again.
//
// The zero value knows none, and is ready to use by any number of goroutines. So is
// nil, which never learns.
type Known struct {
	mu sync.Mutex
	// recent are those that were asked for since the generation before it was full.
	// They are hashes: two accounts that have one are as harmless as any lie.
	recent, before map[uint64]struct{}
}

var knownSeed = maphash.MakeSeed()

// has reports whether the account is there.
func (k *Known) has(a accountKey) bool {
	if k == nil {
		return false
	}
	hash := maphash.Comparable(knownSeed, a)
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, ok := k.recent[hash]; ok {
		return true
	}
	_, ok := k.before[hash]
	if ok {
		k.add(hash)
	}
	return ok
}

// learn remembers an account that another transaction has committed.
func (k *Known) learn(a accountKey) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.add(maphash.Comparable(knownSeed, a))
}

func (k *Known) add(hash uint64) {
	if k.recent == nil || len(k.recent) >= maxKnown {
		k.recent, k.before = make(map[uint64]struct{}), k.recent
	}
	k.recent[hash] = struct{}{}
}

// forget takes back what was learnt of an account.
func (k *Known) forget(a accountKey) {
	k.mu.Lock()
	defer k.mu.Unlock()
	hash := maphash.Comparable(knownSeed, a)
	delete(k.recent, hash)
	delete(k.before, hash)
}
