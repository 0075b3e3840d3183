"""How an error reaches a person at a terminal: code, what, where, fix."""

from __future__ import annotations

import sys

from penstock.model.config_def import CombinedError
from penstock.model.errors import Diagnostic, PenstockError, Severity

FAILED = 1
MISUSED = 2
INTERRUPTED = 130


def print_error(error: PenstockError) -> None:
    """Print an error to standard error; of several, each with its place and fix."""
    for one in error.errors if isinstance(error, CombinedError) else (error,):
        print_diagnostic(one.diagnostic)


def print_diagnostic(diagnostic: Diagnostic) -> None:
    """Print a finding to standard error; control characters in it cannot reach the terminal."""
    word = "warning" if diagnostic.severity is Severity.WARNING else "error"
    lines = [f"{word}: [{diagnostic.code}] {diagnostic.message}"]
    if diagnostic.config_path:
        lines.append(f"  at:  {diagnostic.config_path}")
    if diagnostic.fix:
        lines.append(f"  fix: {diagnostic.fix}")
    for line in lines:
        print(_printable(line), file=sys.stderr)


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
