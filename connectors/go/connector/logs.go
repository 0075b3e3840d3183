package connector

import (
	"io"
	"log/slog"
	"strings"
)

// newLogger writes JSON lines in the form that go-plugin hosts read: one object a line, so that a
// record is never several.
func newLogger(out io.Writer, module string) *slog.Logger {
	handler := slog.NewJSONHandler(out, &slog.HandlerOptions{ReplaceAttr: named})
	return slog.New(handler).With("@module", module)
}

func named(groups []string, attribute slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return attribute
	}
	switch attribute.Key {
	case slog.TimeKey:
		attribute.Key = "@timestamp"
	case slog.LevelKey:
		return slog.String("@level", strings.ToLower(attribute.Value.String()))
	case slog.MessageKey:
		attribute.Key = "@message"
	}
	return attribute
}
