package ledger

// Transfer is one movement of money: Amount minor units of Asset leave Debit
// and reach Credit, once for each Operation.
type Transfer struct {
	// Operation is the scoped business key; two transfers with equal keys are one.
	Operation string
	// Debit and Credit are account names; they differ.
	Debit, Credit string
	// Asset is an ISO 4217 code or a declared asset.
	Asset string
	// Amount is in minor units and positive.
	Amount int64
}
