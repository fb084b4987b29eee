package worker

import "strings"

// maxErrorText bounds what a row keeps of an error, in bytes.
const maxErrorText = 1000

// clean makes any text storable: valid UTF-8 without NUL, bounded.
func clean(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	if len(text) <= maxErrorText {
		return text
	}
	return strings.ToValidUTF8(text[:maxErrorText], "") + "…"
}
