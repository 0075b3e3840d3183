package connector

import (
	"slices"
	"strings"
)

const (
	likeEnough   = 0.6 // of the letters, in order; below it a hint misleads more than it helps
	nearestCount = 3
)

// nearestFix returns a sentence that names the valid words most like a misspelt one, or all.
func nearestFix(word string, valid []string, noun string) string {
	names := slices.Sorted(slices.Values(valid))
	if like := nearest(word, names); len(like) > 0 {
		return "Did you mean '" + strings.Join(like, "' or '") + "'?"
	}
	if len(names) == 0 {
		names = []string{"none"}
	}
	return "The " + noun + " are: " + strings.Join(names, ", ") + "."
}

func nearest(word string, names []string) []string {
	type scored struct {
		name  string
		score float64
	}
	var like []scored
	for _, name := range names {
		total := len(word) + len(name)
		if total == 0 {
			continue
		}
		if score := 2 * float64(inCommon(name, word)) / float64(total); score >= likeEnough {
			like = append(like, scored{name, score})
		}
	}
	slices.SortStableFunc(like, func(a, b scored) int {
		switch {
		case a.score > b.score:
			return -1
		case a.score < b.score:
			return 1
		}
		return strings.Compare(b.name, a.name)
	})
	found := make([]string, 0, nearestCount)
	for _, one := range like[:min(len(like), nearestCount)] {
		found = append(found, one.name)
	}
	return found
}

// inCommon counts the letters that two words have in common: those of the longest run, and of what
// stands before and after it in both.
func inCommon(a, b string) int {
	length, atA, atB := 0, 0, 0
	for i := range len(a) {
		for j := range len(b) {
			run := 0
			for i+run < len(a) && j+run < len(b) && a[i+run] == b[j+run] {
				run++
			}
			if run > length {
				length, atA, atB = run, i, j
			}
		}
	}
	if length == 0 {
		return 0
	}
	return length + inCommon(a[:atA], b[:atB]) + inCommon(a[atA+length:], b[atB+length:])
}
