package rules

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// money reads amounts and assets exactly; pkg/ledger does the arithmetic.
type money struct {
	assets   *ledger.Assets
	lower    bool
	decimals map[string]int
}

// minor implements minor(x): an amount in minor units, as an integer or its
// text. An int keeps its sign, so that a rule can negate it where a provider
// writes refunds below zero.
func (m *money) minor(x ref.Val) ref.Val {
	switch x := x.(type) {
	case types.Int:
		return x
	case decimal:
		return amount(ledger.ParseMinorNumber(string(x)))
	case types.String:
		return amount(ledger.ParseMinor(string(x)))
	}
	return noAmount(x).value()
}

// major implements major(x, asset): an amount in major units of asset, as a
// number or its text.
func (m *money) major(x, code ref.Val) ref.Val {
	asset, refused := m.asset(code)
	if refused != nil {
		return refused.value()
	}
	switch x := x.(type) {
	case types.Int:
		return amount(ledger.ParseMajor(strconv.FormatInt(int64(x), 10), asset.Exponent))
	case decimal:
		return amount(ledger.ParseMajorNumber(string(x), asset.Exponent))
	case types.String:
		return amount(ledger.ParseMajor(string(x), asset.Exponent))
	}
	return noAmount(x).value()
}

// asset returns the asset that code names.
func (m *money) asset(code ref.Val) (ledger.Asset, *refusal) {
	if u, ok := code.(unstorable); ok {
		return ledger.Asset{}, u.refusal()
	}
	text, ok := code.(types.String)
	if !ok {
		return ledger.Asset{}, refuse(dlq.CurrencyUnknown, "the asset is %s, not text", describe(code))
	}
	return m.lookup(string(text))
}

func (m *money) lookup(code string) (ledger.Asset, *refusal) {
	asset, ok := m.assets.Lookup(code)
	if !ok && m.lower && isLowerCode(code) {
		asset, ok = m.assets.Lookup(strings.ToUpper(code))
	}
	if !ok {
		if upper, ok := m.assets.Lookup(strings.ToUpper(code)); ok {
			return ledger.Asset{}, refuse(dlq.CurrencyUnknown, "%w: %q; is it %q? upperAscii() makes it that", ledger.ErrCurrencyUnknown, code, upper.Code)
		}
		return ledger.Asset{}, refuse(dlq.CurrencyUnknown, "%w: %q", ledger.ErrCurrencyUnknown, clip(code))
	}
	return asset, nil
}

// counted turns an amount in the provider's minor units of an asset into the ledger's.
func (m *money) counted(amount int64, asset ledger.Asset) (int64, *refusal) {
	decimals, ok := m.decimals[asset.Code]
	if !ok {
		return amount, nil
	}
	scaled, err := ledger.Rescale(amount, decimals, asset.Exponent)
	if err != nil {
		return 0, amountRefusal(fmt.Errorf("%w: the provider counts %s with %d decimals", err, asset.Code, decimals))
	}
	return scaled, nil
}

func isLowerCode(code string) bool {
	const isoLength = 3
	for _, c := range []byte(code) {
		if c < 'a' || c > 'z' {
			return false
		}
	}
	return len(code) == isoLength
}

// positive checks the result of an amount expression: an int of minor units, 0
// included.
func positive(v ref.Val) (int64, *refusal) {
	switch v := v.(type) {
	case types.Int:
		if v < 0 {
			return 0, refuse(dlq.AmountFormat, "%d is negative; a rule must say so where a provider signs amounts: amount: -minor(…)", int64(v))
		}
		return int64(v), nil
	case decimal:
		if digits, ok := v.integer(); ok && digits[0] != '-' {
			return 0, refuse(dlq.AmountOverflow, "%w: %q", ledger.ErrAmountOverflow, clip(digits))
		}
		return 0, refuse(dlq.AmountFormat, "%q is not an integer; use major(x, asset), or minor(x) for minor units", clip(string(v)))
	case types.String:
		return 0, refuse(dlq.AmountFormat, "%q is text; use minor(x) for minor units, major(x, asset) for major units", clip(string(v)))
	}
	return 0, noAmount(v)
}

func amount(minor int64, err error) ref.Val {
	if err != nil {
		return amountRefusal(err).value()
	}
	return types.Int(minor)
}

// noAmount says why v, which is neither number nor text, is no amount.
func noAmount(v ref.Val) *refusal {
	switch v := v.(type) {
	case types.Null:
		return refuse(dlq.AmountMissing, "the amount is null")
	case unstorable:
		return v.refusal()
	case types.Double:
		return refuse(dlq.AmountFormat, "a double is not exact; use minor() or major() on the value itself")
	}
	return refuse(dlq.AmountFormat, "the amount is %s, not a number", describe(v))
}

// newOperation implements op(kind, part…).
func newOperation(args ...ref.Val) ref.Val {
	o := make(operation, 0, len(args))
	for i, arg := range args {
		text, refused := operationPart(arg)
		if refused != nil {
			refused.err = refuse(refused.reason, "argument %d of op(): %w", i+1, refused.err).err
			return refused.value()
		}
		o = append(o, text)
	}
	return o
}

func operationPart(v ref.Val) (string, *refusal) {
	switch v := v.(type) {
	case types.String:
		if v == "" {
			return "", refuse(dlq.NoOperation, "is empty")
		}
		if !utf8.ValidString(string(v)) || strings.ContainsRune(string(v), 0) {
			return "", unstorable(v).refusal()
		}
		return string(v), nil
	case types.Int:
		return strconv.FormatInt(int64(v), 10), nil
	case decimal:
		if digits, ok := v.integer(); ok {
			return digits, nil
		}
	case types.Null:
		return "", refuse(dlq.NoOperation, "is null")
	case unstorable:
		return "", v.refusal()
	}
	return "", refuse(dlq.RuleError, "is %s, not text or an integer", describe(v))
}

// describe names the kind of v and, where it is short, its value.
func describe(v ref.Val) string {
	switch v := v.(type) {
	case types.Null:
		return "null"
	case decimal:
		return "the decimal " + clip(string(v))
	case types.Int:
		return "the int " + strconv.FormatInt(int64(v), 10)
	case types.Bool:
		return "the bool " + strconv.FormatBool(bool(v))
	}
	return "a " + v.Type().TypeName()
}
