"""A sign of life while a command waits: what for, on the standard error of a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from typing import Final

from rich.console import Console
from rich.status import Status
from rich.text import Text

AFTER: Final = 1.0
"""Seconds without an answer after which a person wonders."""

_shown: list[str] = []
"""What is waited for, from the outside in: only the outermost is shown."""


@contextmanager
def unseen() -> Iterator[None]:
    """Show nothing of what is waited for: the screen is another's."""
    _shown.append("")
    try:
        yield
    finally:
        _shown.remove("")


@contextmanager
def waiting(stage: str) -> Iterator[None]:
    """Show what is waited for, when it takes long; nothing where no person looks."""
    if _shown or not sys.stderr.isatty():
        yield
        return
    _shown.append(stage)
    status = Status(Text(f"{stage} …"), console=Console(stderr=True, markup=False, emoji=False))
    begin = Timer(AFTER, status.start)
    begin.daemon = True
    begin.start()
    try:
        yield
    finally:
        begin.cancel()
        begin.join()  # it may be about to start what is stopped here
        status.stop()
        _shown.remove(stage)
