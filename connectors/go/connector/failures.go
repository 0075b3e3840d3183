package connector

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"strings"
	"syscall"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"

	errorv1 "penstock/go/api/error/v1"
)

// textMost bounds a text in trailing metadata: HTTP/2 headers end at about 8 KiB, and a longer one
// would turn a clear error into a broken stream.
const textMost = 2000

// asError returns what left a connector as one of ours; stage is the method that it left.
func asError(err error, stage string) *Error {
	if err == nil {
		return nil
	}
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	text := fmt.Sprintf("%s: %v", stage, err)
	if isUnreachable(err) {
		return Retriablef("connector.unreachable", "%s", text)
	}
	return Defectf("connector.defect", "%s", text).WithFix(
		"Return a connector.Error for what users can meet; this one was another error.")
}

func isUnreachable(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, syscall.ECONNREFUSED) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// guard runs a method of the author, so that its errors name it and its panics end one task only.
func guard(stage string, method func() error) (failure *Error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			failure = Defectf("connector.defect", "%s: panic: %v", stage, panicked).WithFix(
				"The detail has the stack trace of the panic.")
			failure.Detail = string(debug.Stack())
		}
	}()
	return asError(method(), stage)
}

// diagnostic returns the wire form. Texts are cut so that they always fit into metadata.
func (e *Error) diagnostic() *errorv1.Diagnostic {
	if e == nil { // an author refused a row and gave no reason
		e = DataErrorf("connector.no_reason", "the connector gave no reason").
			WithFix("Set Reason of what is refused.")
	}
	message := &errorv1.Diagnostic{
		Severity:   errorv1.Severity_SEVERITY_ERROR,
		ErrorClass: errorv1.ErrorClass(e.Class),
		Code:       e.Code,
		Message:    cutText(e.Message, textMost),
		Detail:     cutText(e.Detail, textMost),
		ConfigPath: e.ConfigPath,
		Suggestion: e.Suggestion,
		Dataset:    e.Dataset,
		Fix:        cutText(e.Fix, textMost),
	}
	if e.RetryAfter > 0 {
		message.RetryAfter = durationpb.New(e.RetryAfter)
	}
	return message
}

func cutText(text string, most int) string {
	text = strings.ToValidUTF8(text, "�") // a text that is none cannot be in a message
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}
