"""Attempts of a plugin to reach its system, as its log lines tell them, for whoever runs the task.

A plugin that opens a task makes some attempts before it answers. Each that fails is a line of its
log, and a line in JSON may say so in a form of its own:

    {"@level": "warn", "@message": "…", "@attempt": {"task": "g-0", "epoch": 7, "code":
     "mqtt.unreachable", "message": "…", "fix": "…", "attempt": 2, "attempts": 100}}

`task` and `epoch` are those of the order to open. Who does not write it is only silent meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from penstock.model.errors import Diagnostic, ErrorClass
from penstock.plugin.errors import clean_diagnostic

KEY: Final = "@attempt"
_MARK: Final = f'"{KEY}"'


@dataclass(frozen=True, slots=True)
class ConnectAttempt:
    """A failed attempt of a task."""

    task_id: str
    epoch: int
    diagnostic: Diagnostic


OnAttempt: TypeAlias = Callable[[ConnectAttempt], None]


def parse_attempt(line: str, redact: Callable[[str], str]) -> ConnectAttempt | None:
    """Return the failed attempt that a line of a log tells; None for every other line."""
    if _MARK not in line:
        return None
    try:
        found = json.loads(line)[KEY]
        return _read_attempt(found, redact)
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
        return None


def _read_attempt(found: Mapping[str, Any], redact: Callable[[str], str]) -> ConnectAttempt:
    number, most = int(found["attempt"]), int(found.get("attempts", 0))
    count = f"attempt {number} of {most}" if most else f"attempt {number}"
    diagnostic = Diagnostic(
        str(found["code"]),
        f"{str(found['message']).rstrip('.')} ({count})",
        ErrorClass.RETRIABLE,
        fix=str(found.get("fix", "")),
    )
    cleaned = clean_diagnostic(diagnostic, redact)
    return ConnectAttempt(str(found["task"]), int(found["epoch"]), cleaned)


class AttemptListeners:
    """Passes the failed attempts of all plugins to those that run the tasks."""

    def __init__(self) -> None:
        self._listeners: dict[tuple[str, int], Callable[[Diagnostic], None]] = {}

    @contextmanager
    def watch(
        self, task_id: str, epoch: int, on_failure: Callable[[Diagnostic], None]
    ) -> Iterator[None]:
        """Call `on_failure` for each failed attempt of a task while the block runs."""
        self._listeners[task_id, epoch] = on_failure
        try:
            yield
        finally:
            del self._listeners[task_id, epoch]

    def report(self, attempt: ConnectAttempt) -> None:
        """Pass an attempt on. One of a task that nobody watches is dropped."""
        listener = self._listeners.get((attempt.task_id, attempt.epoch))
        if listener is not None:
            listener(attempt.diagnostic)
