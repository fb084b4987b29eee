package ledger

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/bojanz/currency"
)

// ErrCurrencyUnknown says that an asset is neither an ISO 4217 currency nor declared.
var ErrCurrencyUnknown = errors.New("asset is unknown")

// maxAssetCode is the longest code of a declared asset in bytes.
const maxAssetCode = 16

// Asset is what an amount counts: a currency, or points and gems.
type Asset struct {
	// Code is the ISO 4217 code or the declared one.
	Code string
	// Exponent is the number of decimals between minor and major units: 2 for
	// EUR, 0 for JPY, 3 for KWD.
	Exponent int
}

// Validate returns why a cannot be declared: a code that is not
// [A-Z][A-Z0-9_]{1,15} or that ISO 4217 has taken, or an exponent outside
// 0..MaxExponent.
func (a Asset) Validate() error {
	var errs []error
	if !validCode(a.Code) {
		errs = append(errs, fmt.Errorf("code %q is not 2 to %d of A-Z, 0-9 and _ with a letter first", a.Code, maxAssetCode))
	}
	if _, taken := isoAsset(a.Code); taken {
		errs = append(errs, fmt.Errorf("code %q is an ISO 4217 currency, which needs no declaration", a.Code))
	}
	if a.Code == "XXX" || a.Code == "XTS" {
		errs = append(errs, fmt.Errorf("code %q means no currency and testing in ISO 4217", a.Code))
	}
	if a.Exponent < 0 || a.Exponent > MaxExponent {
		errs = append(errs, fmt.Errorf("exponent %d is outside 0..%d", a.Exponent, MaxExponent))
	}
	return errors.Join(errs...)
}

// Assets knows every asset that may be posted: ISO 4217 currencies with the
// exponents of the standard, and the declared ones. A nil *Assets knows ISO
// alone. It is safe for concurrent use.
type Assets struct {
	declared map[string]Asset
}

// NewAssets returns ISO 4217 plus declared, or every fault of the declarations.
func NewAssets(declared []Asset) (*Assets, error) {
	assets := &Assets{declared: make(map[string]Asset, len(declared))}
	var errs []error
	for _, asset := range declared {
		if err := asset.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("declare asset: %w", err))
			continue
		}
		if _, taken := assets.declared[asset.Code]; taken {
			errs = append(errs, fmt.Errorf("declare asset: code %q is declared twice", asset.Code))
			continue
		}
		assets.declared[asset.Code] = asset
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return assets, nil
}

// Lookup returns the asset with exactly this code; "eur" and "EUR " are not
// EUR. Codes of ISO 4217 without a minor unit (XXX, XTS, metals, funds) are
// unknown.
func (a *Assets) Lookup(code string) (Asset, bool) {
	if asset, ok := isoAsset(code); ok {
		return asset, true
	}
	if a == nil {
		return Asset{}, false
	}
	asset, ok := a.declared[code]
	return asset, ok
}

// Declared returns the declared assets, ordered by code.
func (a *Assets) Declared() []Asset {
	if a == nil {
		return nil
	}
	codes := slices.Sorted(maps.Keys(a.declared))
	assets := make([]Asset, len(codes))
	for i, code := range codes {
		assets[i] = a.declared[code]
	}
	return assets
}

// isoAsset looks code up in ISO 4217; bojanz/currency takes its digits from the
// standard's own list, unlike CLDR, whose digits are those of display.
func isoAsset(code string) (Asset, bool) {
	digits, ok := currency.GetDigits(code)
	if !ok {
		return Asset{}, false
	}
	return Asset{Code: code, Exponent: int(digits)}, true
}

func validCode(code string) bool {
	if len(code) < 2 || len(code) > maxAssetCode || code[0] < 'A' || code[0] > 'Z' {
		return false
	}
	for _, c := range []byte(code) {
		letter, digit := 'A' <= c && c <= 'Z', '0' <= c && c <= '9'
		if !letter && !digit && c != '_' {
			return false
		}
	}
	return true
}
