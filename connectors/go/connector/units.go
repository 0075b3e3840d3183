package connector

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"time"
)

var quantityForm = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)$`)

var durationUnits = map[string]time.Duration{
	"us": time.Microsecond, "ms": time.Millisecond, "s": time.Second,
	"m": time.Minute, "min": time.Minute, "h": time.Hour, "d": 24 * time.Hour,
}

var sizeUnits = map[string]float64{
	"B": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30,
	"kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
	"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
}

// parseDuration reads 5s, 100ms, 1.5h; a bare number is in seconds, or in milliseconds.
func parseDuration(text string, bareMillis bool) (time.Duration, error) {
	number, unit, err := quantity(text)
	if unit == "" {
		unit = "s"
		if bareMillis {
			unit = "ms"
		}
	}
	size, found := durationUnits[unit]
	nanos := number * float64(size)
	if err != nil || !found || nanos > math.MaxInt64/2 {
		return 0, fmt.Errorf("%q is no duration", text)
	}
	return time.Duration(nanos), nil
}

// parseSize reads 1MiB, 64kB, 4096.
func parseSize(text string) (int64, error) {
	number, unit, err := quantity(text)
	if unit == "" {
		unit = "B"
	}
	size, found := sizeUnits[unit]
	if err != nil || !found || number*size > math.MaxInt64/2 {
		return 0, fmt.Errorf("%q is no size", text)
	}
	return int64(number * size), nil
}

func quantity(text string) (float64, string, error) {
	match := quantityForm.FindStringSubmatch(text)
	if match == nil {
		return 0, "", fmt.Errorf("%q is no number with a unit", text)
	}
	number, err := strconv.ParseFloat(match[1], 64)
	return number, match[2], err
}

func durationText(value time.Duration) string {
	if value == 0 {
		return "0s"
	}
	for _, unit := range []string{"h", "m", "s", "ms", "us"} {
		if size := durationUnits[unit]; value%size == 0 {
			return fmt.Sprintf("%d%s", value/size, unit)
		}
	}
	return strconv.FormatFloat(value.Seconds(), 'g', -1, 64) + "s"
}

func sizeText(value int64) string {
	for _, unit := range []string{"GiB", "MiB", "KiB"} {
		if size := int64(sizeUnits[unit]); value != 0 && value%size == 0 {
			return fmt.Sprintf("%d%s", value/size, unit)
		}
	}
	return fmt.Sprintf("%dB", value)
}
