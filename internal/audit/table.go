package audit

import (
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/onceledger/onceledger/pkg/ledger"
)

// shownFindings bounds the problems that the table lists; JSON has more.
const shownFindings = 50

// WriteTable prints the report for a person: every term of the sum, the
// ledger's totals, the problems, and the verdict on the last line.
func (r *Report) WriteTable(w io.Writer) error {
	var b strings.Builder
	r.writeSum(&b)
	r.writeBooks(&b)
	fmt.Fprintf(&b, "\nDead letters: %d stored, of them %d stale; %d parked events, of them %d without a letter yet\n",
		r.Letters.Stored, r.Letters.Stale, r.Letters.Failed, r.Letters.Unrecorded)
	r.writeFindings(&b)
	fmt.Fprintf(&b, "\n%s (%.1f s)\n", r.Verdict(), r.Seconds)
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// Verdict is "CLEAN", or how many problems there are.
func (r *Report) Verdict() string {
	switch r.Problems {
	case 0:
		return "CLEAN"
	case 1:
		return "1 problem"
	}
	return fmt.Sprintf("%d problems", r.Problems)
}

func (r *Report) writeSum(b *strings.Builder) {
	fmt.Fprintf(b, "Messages of EVENTS, %d to %d (answered up to %d)\n\n", r.Stream.First, r.Stream.Last, r.Stream.AckFloor)
	fmt.Fprintf(b, "    %-20s %12d\n", "messages", r.Sum.Messages)
	sign := "="
	for _, line := range []struct {
		name string
		n    int
	}{
		{"applied", r.Sum.Applied},
		{"ignored", r.Sum.Ignored},
		{"duplicate operation", r.Sum.DuplicateOperation},
		{"duplicates", r.Sum.Duplicates},
		{"parked", r.Sum.Parked},
		{"discarded", r.Sum.Discarded},
		{"redriven copies", r.Sum.Redriven},
		{"in flight", r.Sum.InFlight},
		{"UNACCOUNTED", r.Sum.Unaccounted},
	} {
		fmt.Fprintf(b, "  %s %-20s %12d\n", sign, line.name, line.n)
		sign = "+"
	}
}

func (r *Report) writeBooks(b *strings.Builder) {
	fmt.Fprintf(b, "\nLedger: %d events, %d transfers (%d reversals), %d operations, %d accounts\n", r.Books.Events, r.Books.Transfers, r.Books.Reversals, r.Books.Operations, r.Books.Accounts)
	if r.Books.Holds > 0 {
		fmt.Fprintf(b, "Holds: %d; captures that no hold covered: %d\n", r.Books.Holds, r.Books.Uncovered)
	}
	for i, f := range r.Books.Facts {
		if i == shownFindings {
			fmt.Fprintf(b, "  … and %d more; --json lists up to %d\n", r.Books.Uncovered-shownFindings, maxFacts)
			break
		}
		fmt.Fprintf(b, "  event %s of %s: %s %s of %s (%s)\n", printable(f.EventID), printable(f.Source), ledger.FormatMinor(f.Uncovered, f.Exponent), f.Asset,
			ledger.FormatMinor(f.Amount, f.Exponent), printable(ledger.FormatKey(f.Operation)))
	}
	if len(r.Books.Assets) == 0 {
		return
	}
	b.WriteByte('\n')
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tASSET\tACCOUNTS\tDEBITS\tCREDITS\t")
	for _, a := range r.Books.Assets {
		fmt.Fprintf(t, "\t%s\t%d\t%s\t%s\t\n", a.Asset, a.Accounts, decimal(a.Debits, a.Exponent), decimal(a.Credits, a.Exponent))
	}
	_ = t.Flush() // a strings.Builder takes everything
}

func (r *Report) writeFindings(b *strings.Builder) {
	if len(r.Findings) == 0 {
		return
	}
	b.WriteString("\nProblems\n\n")
	for i, f := range r.Findings {
		if i == shownFindings {
			break
		}
		fmt.Fprintf(b, "  %s%s\n    %s\n", f.Kind, printable(f.name()), printable(f.Detail))
	}
	if more := r.Problems - min(len(r.Findings), shownFindings); more > 0 {
		fmt.Fprintf(b, "  … and %d more; --json lists up to %d\n", more, maxFindings)
	}
}

// name says what a finding is about.
func (f *Finding) name() string {
	var parts []string
	add := func(label, value string) {
		if value != "" {
			parts = append(parts, label+" "+value)
		}
	}
	if f.Seq != 0 {
		add("message", fmt.Sprint(f.Seq))
	}
	add("source", f.Source)
	add("event", f.EventID)
	add("variant", f.Variant)
	add("account", f.Account)
	add("asset", f.Asset)
	add("operation", ledger.FormatKey(f.Operation))
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}

// decimal prints minor units of any size in major ones.
func decimal(minor json.Number, exponent int) string {
	n, ok := new(big.Int).SetString(minor.String(), 10)
	if !ok || exponent == 0 {
		return minor.String()
	}
	sign := ""
	if n.Sign() < 0 {
		sign = "-"
	}
	digits := n.Abs(n).String()
	digits = strings.Repeat("0", max(0, exponent+1-len(digits))) + digits
	point := len(digits) - exponent
	return sign + digits[:point] + "." + digits[point:]
}

// printable shows text from outside without letting it move the cursor.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '\uFFFD'
		}
		return r
	}, text)
}
