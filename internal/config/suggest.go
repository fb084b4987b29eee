package config

import "fmt"

// maxTypos is how far a word may be from the one that was meant.
const maxTypos = 2

// DidYouMean returns "; did you mean …?" where one of words is close to word.
func DidYouMean(word string, words []string) string {
	best, found := min(maxTypos, len(word)/2)+1, ""
	for _, candidate := range words {
		if d := distance(word, candidate); d < best {
			best, found = d, candidate
		}
	}
	if found == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", found)
}

// distance is the number of letters to insert, drop or replace.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
