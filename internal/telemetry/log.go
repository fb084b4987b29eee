package telemetry

import (
	"io"
	"os"
	"slices"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/term"
)

// NewLogger returns a logger that writes JSON lines to w, or coloured lines for
// a person where w is a terminal. level is "debug", "info", "warn" or "error";
// any other text means "info". Times are UTC with milliseconds.
func NewLogger(w io.Writer, level string) zerolog.Logger {
	parsed, err := zerolog.ParseLevel(level)
	if err != nil || parsed == zerolog.NoLevel {
		parsed = zerolog.InfoLevel
	}
	if isTerminal(w) {
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: time.TimeOnly}
	}
	return zerolog.New(w).Level(parsed).Hook(clock{}).With().Logger()
}

// KnownLevel reports whether NewLogger takes level as it is written.
func KnownLevel(level string) bool {
	return slices.Contains([]string{"debug", "info", "warn", "error"}, level)
}

// clock stamps each line itself: zerolog's own time format is a global of the process.
type clock struct{}

// Run implements zerolog.Hook.
func (clock) Run(e *zerolog.Event, _ zerolog.Level, _ string) {
	e.Str(zerolog.TimestampFieldName, time.Now().UTC().Format("2006-01-02T15:04:05.000Z07:00"))
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
