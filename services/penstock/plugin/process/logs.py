"""The output of a plugin as log records of the host: attributed, escaped, redacted, bounded.

Text is logged at INFO. JSON lines in the form of hclog (`@level`, `@message`) or OpenTelemetry
(`severityText`, `body`) keep their level. No output can forge a second line, block the plugin or
fill the memory of the host (invariants 8, 12).
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from penstock.plugin.errors import escape_text
from penstock.plugin.process import attempts
from penstock.telemetry.redaction import redact_secrets

_log = logging.getLogger(__name__)

REDACTED: Final = "***"

_MIN_SECRET_CHARACTERS: Final = 4
"""Shorter values are not redacted: to replace every `1` would make a log unreadable."""

_MAX_SECRETS: Final = 1_000

MAX_LINE_BYTES: Final = 16 * 1024
"""Longest line that is kept; longer lines are cut. A handshake with a certificate has 1 KiB."""

ELLIPSIS: Final = "…".encode()
LINES_PER_SECOND: Final = 200.0

MAX_BURST_LINES: Final = 1_000
"""Enough for a stack trace or a start-up banner."""

BYTES_PER_SECOND: Final = 32 << 20
"""How fast the output of a plugin is read. With a larger figure a flood uses more CPU of the host
(about 0.3 ms for 64 KiB); a smaller one slows only the plugin that floods."""

TAIL_LINES: Final = 20
_CHUNK: Final = 64 * 1024
_MAX_FIELDS: Final = 20

_LEVELS: Final[Mapping[str, int]] = {
    "trace": logging.DEBUG,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "fatal": logging.ERROR,
    "critical": logging.ERROR,
}

_LEVEL_KEYS: Final = ("@level", "level", "severityText", "severity_text")
_MESSAGE_KEYS: Final = ("@message", "message", "msg", "body")
_IGNORED_KEYS: Final = frozenset({"@timestamp", "timestamp", "time", "@module", attempts.KEY})


class Redactor:
    """Redacts the secrets that a process was given, the newest `_MAX_SECRETS`, in text."""

    def __init__(self) -> None:
        self._values: dict[str, None] = {}
        self._pattern: re.Pattern[str] | None = None

    def add_secrets(self, secrets: Iterable[str]) -> None:
        """Redact these values from now on."""
        new = [s for s in secrets if len(s) >= _MIN_SECRET_CHARACTERS and s not in self._values]
        if not new:
            return
        self._values.update(dict.fromkeys(new))
        while len(self._values) > _MAX_SECRETS:
            del self._values[next(iter(self._values))]
        longest_first = sorted(self._values, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)))

    def __call__(self, text: str) -> str:
        """Return the text with secrets redacted: those of the plugin and those of the worker,
        because a plugin may quote a part of a value that it was given.
        """
        return redact_secrets(self._pattern.sub(REDACTED, text) if self._pattern else text)


class LineBuffer:
    """Splits chunks into lines; holds one line of at most `max_bytes` (invariant 12)."""

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._held = bytearray()
        self._is_cut = False

    @property
    def held(self) -> bytes:
        """The line that has no newline yet."""
        return bytes(self._held)

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that end in this chunk."""
        *ended, rest = chunk.split(b"\n")
        lines = []
        for part in ended:
            self._hold(part)
            lines.append(self._take())
        self._hold(rest)
        return lines

    def finish(self) -> list[bytes]:
        """Return the text after the last newline as a line."""
        return [self._take()] if self._held else []

    def _hold(self, part: bytes) -> None:
        free = self._max_bytes - len(self._held)
        self._held += part[:free]
        self._is_cut |= len(part) > free

    def _take(self) -> bytes:
        line = bytes(self._held).rstrip(b"\r") + (ELLIPSIS if self._is_cut else b"")
        self._held.clear()
        self._is_cut = False
        return line


class LineBudget:
    """A token bucket for lines: `burst` at once, then `rate` per second."""

    def __init__(
        self,
        rate: float = LINES_PER_SECOND,
        burst: float = MAX_BURST_LINES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._left, self._updated_at = burst, clock()

    def take(self) -> bool:
        """Take one line from the budget; return False when it is used up."""
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._updated_at) * self._rate)
        self._updated_at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class PluginLog:
    """The log of one process: the lines of both pipes."""

    def __init__(
        self,
        plugin: str,
        connector: str,
        redact: Redactor,
        budget: LineBudget | None = None,
        on_attempt: attempts.OnAttempt | None = None,
    ) -> None:
        """`on_attempt` gets the failed attempts to connect that lines tell."""
        self._extra = {"plugin": plugin, "connector": connector}
        self._name = f"{plugin}/{connector}"
        self._redact, self._on_attempt = redact, on_attempt
        self._budget = budget or LineBudget()
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._dropped = 0

    @property
    def tail(self) -> str:
        """The last lines, for the error when the process ends."""
        return " | ".join(self._tail)

    @property
    def dropped(self) -> int:
        """Number of lines dropped since the last one that was logged."""
        return self._dropped

    def line(self, raw: bytes) -> None:
        """Log a line; when the budget is used up, count it as dropped."""
        text = raw.decode("utf-8", "backslashreplace").strip()
        if not text:
            return
        if not self._budget.take():
            self._dropped += 1
            self._tail.append(escape_text(self._redact(text[:400]), 200))
            return
        self.report_dropped()
        attempt = attempts.parse_attempt(text, self._redact) if self._on_attempt else None
        if attempt is not None and self._on_attempt is not None:
            self._on_attempt(attempt)
        level, message = parse_line(text)
        message = escape_text(self._redact(message))
        self._tail.append(escape_text(message, 400))
        _log.log(level, "%s: %s", self._name, message, extra=self._extra)

    def report_dropped(self) -> None:
        """Log the number of dropped lines, if any."""
        if self._dropped:
            _log.warning(
                "%s: %d lines dropped, the plugin prints too much",
                self._name,
                self._dropped,
                extra=self._extra,
            )
            self._dropped = 0


def parse_line(text: str) -> tuple[int, str]:
    """Return the level and the message of a line that a plugin printed."""
    if not (text.startswith("{") and text.endswith("}")):
        return logging.INFO, text
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return logging.INFO, text
    message = _first_value(record, _MESSAGE_KEYS)
    if message is None:
        return logging.INFO, text
    level = _LEVELS.get(str(_first_value(record, _LEVEL_KEYS)).lower(), logging.INFO)
    return level, f"{message}{_other_fields(record)}"


async def forward(
    pipe: asyncio.StreamReader,
    buffer: LineBuffer,
    on_line: Callable[[bytes], None],
    bytes_per_second: int = BYTES_PER_SECOND,
) -> None:
    """Pass each line of a pipe to `on_line` until its end. Logging never blocks the plugin."""
    clock = asyncio.get_running_loop().time
    since, read = clock(), 0
    while chunk := await pipe.read(_CHUNK):
        for line in buffer.feed(chunk):
            on_line(line)
        read += len(chunk)
        if clock() - since >= 1:
            since, read = clock(), 0
        elif read >= bytes_per_second:
            await asyncio.sleep(1 - (clock() - since))
            since, read = clock(), 0
    for line in buffer.finish():
        on_line(line)


def _first_value(record: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    return next((record[key] for key in keys if key in record), None)


def _other_fields(record: Mapping[str, Any]) -> str:
    named = {*_LEVEL_KEYS, *_MESSAGE_KEYS, *_IGNORED_KEYS}
    others = [(k, v) for k, v in record.items() if k not in named]
    return "".join(f" {key}={value}" for key, value in others[:_MAX_FIELDS])
