"""Exit codes, and how an error is printed: code, message, place, fix."""

from __future__ import annotations

import os
import sys
import traceback
from dataclasses import replace
from typing import Final

from penstock.model.config_def import map_errors, split_errors
from penstock.model.errors import ConfigError, Diagnostic, InternalError, PenstockError, Severity

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_CHANGES = 3
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141

LOG_LEVEL_VARIABLE: Final = "PENSTOCK_LOG_LEVEL"
"""At DEBUG, an unexpected error is printed with its traceback."""

MAX_TRACE_LINES: Final = 40
"""Lines of a stack trace that are printed, the last ones. Those of the SDKs are shorter."""


def as_penstock_error(error: Exception) -> PenstockError:
    """Return the error to print: a file's `OSError` with its path, the unexpected as a defect."""
    if isinstance(error, PenstockError):
        return error
    if os.environ.get(LOG_LEVEL_VARIABLE, "").upper() == "DEBUG":
        traceback.print_exception(error)
    if isinstance(error, OSError) and error.filename:
        return ConfigError(
            "io.failed",
            f"{error.filename}: {error.strerror}",
            fix="Check the path, and the permissions of this user.",
        )
    return InternalError(
        "internal.unexpected",
        f"{type(error).__name__}: {error}",
        fix=f"This is a defect: report it with the output of {LOG_LEVEL_VARIABLE}=DEBUG.",
    )


def with_connector_name(error: PenstockError, name: str) -> PenstockError:
    """Return the error with the connector's name before its message."""
    return map_errors(error, lambda one: replace(one, message=f"{name}: {one.message}"))


def print_error(error: PenstockError) -> None:
    """Print an error to standard error; a combined one as each of its parts."""
    for one in split_errors(error):
        print_diagnostic(one.diagnostic)


def print_diagnostic(diagnostic: Diagnostic) -> None:
    """Print a diagnostic to standard error. Control characters are escaped."""
    word = "warning" if diagnostic.severity is Severity.WARNING else "error"
    lines = [f"{word}: [{diagnostic.code}] {diagnostic.message}"]
    if diagnostic.config_path:
        lines.append(f"  at:  {diagnostic.config_path}")
    if diagnostic.fix:
        lines.append(f"  fix: {diagnostic.fix}")
    if diagnostic.trace:
        lines.append("  trace:")
        lines += [f"    {line}" for line in diagnostic.trace.splitlines()[-MAX_TRACE_LINES:]]
    for line in lines:
        print(_printable(line), file=sys.stderr)


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
