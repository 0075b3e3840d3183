"""How an error reaches a person at a terminal: code, what, where, fix."""

from __future__ import annotations

import os
import sys
import traceback
from dataclasses import replace
from typing import Final

from penstock.model.config_def import changed_errors, single_errors
from penstock.model.errors import (
    ConfigError,
    Diagnostic,
    InternalError,
    PenstockError,
    Severity,
)

FAILED = 1
MISUSED = 2
CHANGES = 3
INTERRUPTED = 130
UNREAD = 141

TRACED: Final = "PENSTOCK_LOG_LEVEL"
"""At DEBUG, an error that nobody thought of is shown with its trace."""

TRACE_LINES: Final = 40
"""Lines of a stack trace that are printed. Ones of the SDKs are shorter."""


def told_of(error: Exception) -> PenstockError:
    """Return an error as a person is told it; one that nobody thought of is a defect of ours."""
    if isinstance(error, PenstockError):
        return error
    if os.environ.get(TRACED, "").upper() == "DEBUG":
        traceback.print_exception(error)
    if isinstance(error, OSError) and error.filename:
        return ConfigError(
            "io.failed",
            f"{error.filename}: {error.strerror}",
            fix="Check the path, and what this user may do there.",
        )
    return InternalError(
        "internal.unexpected",
        f"{type(error).__name__}: {error}",
        fix=f"This is a defect: report it with what {TRACED}=DEBUG shows.",
    )


def named(error: PenstockError, name: str) -> PenstockError:
    """Return an error that says which connector it is about."""
    return changed_errors(error, lambda told: replace(told, message=f"{name}: {told.message}"))


def print_error(error: PenstockError) -> None:
    """Print an error to standard error; of several, each with its place and fix."""
    for one in single_errors(error):
        print_diagnostic(one.diagnostic)


def print_diagnostic(diagnostic: Diagnostic) -> None:
    """Print a finding to standard error; control characters in it cannot reach the terminal."""
    word = "warning" if diagnostic.severity is Severity.WARNING else "error"
    lines = [f"{word}: [{diagnostic.code}] {diagnostic.message}"]
    if diagnostic.config_path:
        lines.append(f"  at:  {diagnostic.config_path}")
    if diagnostic.fix:
        lines.append(f"  fix: {diagnostic.fix}")
    if diagnostic.trace:
        lines.append("  trace:")
        lines += [f"    {line}" for line in diagnostic.trace.splitlines()[-TRACE_LINES:]]
    for line in lines:
        print(_printable(line), file=sys.stderr)


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
