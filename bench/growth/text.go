package growth

import (
	"fmt"
	"math"
)

// count writes a whole number with separators: 12,345.
func count(v float64) string {
	text := fmt.Sprintf("%.0f", v)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// rough writes a number with two figures, which is more than the model knows.
func rough(v float64) string {
	if v == 0 {
		return "0"
	}
	unit := math.Pow(10, math.Floor(math.Log10(math.Abs(v)))-1)
	if unit < 1 {
		return fmt.Sprintf("%.2g", v)
	}
	return count(math.Round(v/unit) * unit)
}

// many is a number of something.
func many(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return count(float64(n)) + " " + what
}
