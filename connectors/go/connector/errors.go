package connector

import (
	"fmt"
	"time"

	errorv1 "penstock/go/api/error/v1"
)

// Class tells the host what to do about an error. The numbers equal penstock.api.error.v1.
type Class int32

// The classes of errors.
const (
	// ClassRetriable: the same call may succeed later.
	ClassRetriable = Class(errorv1.ErrorClass_ERROR_CLASS_RETRIABLE)
	// ClassConfig: the user must change the configuration.
	ClassConfig = Class(errorv1.ErrorClass_ERROR_CLASS_CONFIG)
	// ClassAuth: credentials were refused by the system that the connector talks to.
	ClassAuth = Class(errorv1.ErrorClass_ERROR_CLASS_AUTH)
	// ClassData: a row is bad; the task may go on.
	ClassData = Class(errorv1.ErrorClass_ERROR_CLASS_DATA)
	// ClassSchema: a schema change cannot be applied.
	ClassSchema = Class(errorv1.ErrorClass_ERROR_CLASS_SCHEMA)
	// ClassFenced: another owner has a newer epoch; stop, never retry.
	ClassFenced = Class(errorv1.ErrorClass_ERROR_CLASS_FENCED)
	// ClassOffsetLost: the offset is gone at the source; skipping needs the user's word.
	ClassOffsetLost = Class(errorv1.ErrorClass_ERROR_CLASS_OFFSET_LOST)
	// ClassDefect: a defect of the connector; a few restarts, then the task fails.
	ClassDefect = Class(errorv1.ErrorClass_ERROR_CLASS_INTERNAL)
)

// Error is what a connector returns for everything that users can meet. Any other error is
// reported as a defect, except those of networks and time limits, which are retriable.
type Error struct {
	// Class says what the host does.
	Class Class
	// Code is stable and dotted, for instance file.missing.
	Code string
	// Message is one line for people: what went wrong, and where.
	Message string
	// Fix is one sentence: how to fix it.
	Fix string
	// ConfigPath is the configuration key it is about.
	ConfigPath string
	// Suggestion is a value that would work there.
	Suggestion string
	// Detail is longer text.
	Detail string
	// Dataset it is about.
	Dataset string
	// RetryAfter is the time to wait before a retry; 0 lets the host decide.
	RetryAfter time.Duration
}

// Error returns the code, the message and the fix.
func (e *Error) Error() string {
	text := fmt.Sprintf("[%s] %s", e.Code, e.Message)
	if e.Fix != "" {
		text += " Fix: " + e.Fix
	}
	return text
}

// WithFix sets how to fix it.
func (e *Error) WithFix(format string, args ...any) *Error {
	e.Fix = fmt.Sprintf(format, args...)
	return e
}

// At sets the configuration key it is about.
func (e *Error) At(key string) *Error {
	e.ConfigPath = key
	return e
}

// Retriablef makes an error after which the same call may succeed later.
func Retriablef(code, format string, args ...any) *Error {
	return newError(ClassRetriable, code, format, args...)
}

// ConfigErrorf makes an error for which the user must change the configuration.
func ConfigErrorf(code, format string, args ...any) *Error {
	return newError(ClassConfig, code, format, args...)
}

// AuthErrorf makes an error for credentials that were refused.
func AuthErrorf(code, format string, args ...any) *Error {
	return newError(ClassAuth, code, format, args...)
}

// DataErrorf makes an error for a bad row.
func DataErrorf(code, format string, args ...any) *Error {
	return newError(ClassData, code, format, args...)
}

// SchemaErrorf makes an error for a schema change that cannot be applied.
func SchemaErrorf(code, format string, args ...any) *Error {
	return newError(ClassSchema, code, format, args...)
}

// FencedErrorf makes an error for an owner that is no longer one.
func FencedErrorf(code, format string, args ...any) *Error {
	return newError(ClassFenced, code, format, args...)
}

// OffsetLostErrorf makes an error for an offset that is gone at the source.
func OffsetLostErrorf(code, format string, args ...any) *Error {
	return newError(ClassOffsetLost, code, format, args...)
}

// Defectf makes an error for a defect of the connector.
func Defectf(code, format string, args ...any) *Error {
	return newError(ClassDefect, code, format, args...)
}

func newError(class Class, code, format string, args ...any) *Error {
	return &Error{Class: class, Code: code, Message: fmt.Sprintf(format, args...)}
}
