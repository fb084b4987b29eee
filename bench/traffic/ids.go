package traffic

import (
	"crypto/sha256"
	"encoding/hex"
)

// Random returns the same charges with ids that have no order, as a UUID has
// none, where those of NewCharges grow with the number.
func (c *Charges) Random() *Charges {
	other := *c
	other.random = true
	return &other
}

// AppendConflict appends what a sender must never send: another charge under the
// ids of charge n, for ConflictAmount.
func (c *Charges) AppendConflict(dst []byte, n int) []byte {
	return c.append(dst, n, ConflictAmount(n))
}

// ConflictAmount is what the conflict of charge n would move, in minor units.
func ConflictAmount(n int) int64 { return Amount(n + 1) }

// id fills dst with what stands behind evt_ and ch_ in charge n.
func (c *Charges) id(dst []byte, n int) {
	copy(dst, c.tag)
	digits(dst[tagWidth:], n)
	if c.random {
		sum := sha256.Sum256(dst)
		copy(dst, hex.EncodeToString(sum[:])) // 72 bits of it: no two of 10 million are the same
	}
}
