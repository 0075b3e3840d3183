"""What a plugin prints, as log records of the host: attributed, escaped, bounded.

Text is INFO. JSON lines in hclog's form (`@level`, `@message`) or OpenTelemetry's (`severityText`,
`body`) keep their level. Nothing that a plugin prints can forge a second line, block the plugin, or
make the host grow (invariants 8, 12).
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

from penstock.plugin.errors import printable
from penstock.telemetry import masked

HIDDEN: Final = "***"
_SHORTEST: Final = 4
"""Shorter values are left: replacing every `1` of a log would hide the log, not the secret."""
_MOST: Final = 1_000


class Redactor:
    """Knows the secrets that were given to a process, newest `_MOST`, and hides them in text."""

    def __init__(self) -> None:
        self._values: dict[str, None] = {}
        self._pattern: re.Pattern[str] | None = None

    def learn(self, secrets: Iterable[str]) -> None:
        """Hide these values from now on."""
        new = [s for s in secrets if len(s) >= _SHORTEST and s not in self._values]
        if not new:
            return
        self._values.update(dict.fromkeys(new))
        while len(self._values) > _MOST:
            del self._values[next(iter(self._values))]
        longest_first = sorted(self._values, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)))

    def __call__(self, text: str) -> str:
        """Return the text without secrets, those that the whole worker knows included: a plugin
        may quote a part of a value that it was given.
        """
        return masked(self._pattern.sub(HIDDEN, text) if self._pattern else text)


MOST_BYTES: Final = 16 * 1024
"""Longest line that is kept. A handshake with a certificate is about 1 KiB; what is longer is cut
and the rest of it dropped."""

CUT: Final = "…".encode()


class LineCutter:
    """Holds at most one line, of at most `most` bytes (invariant 12)."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most = most
        self._held = bytearray()
        self._cut = False

    @property
    def held(self) -> bytes:
        """The line that has no end yet."""
        return bytes(self._held)

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that this chunk ends."""
        *ended, rest = chunk.split(b"\n")
        lines = []
        for part in ended:
            self._hold(part)
            lines.append(self._take())
        self._hold(rest)
        return lines

    def finish(self) -> list[bytes]:
        """Return what stands after the last newline."""
        return [self._take()] if self._held else []

    def _hold(self, part: bytes) -> None:
        room = self._most - len(self._held)
        self._held += part[:room]
        self._cut |= len(part) > room

    def _take(self) -> bytes:
        line = bytes(self._held).rstrip(b"\r") + (CUT if self._cut else b"")
        self._held.clear()
        self._cut = False
        return line


_log = logging.getLogger(__name__)

LINES_PER_SECOND: Final = 200.0
LINES_AT_ONCE: Final = 1_000
"""A stack trace or a start-up banner fits in; a flood does not."""
BYTES_PER_SECOND: Final = 32 << 20
"""How fast a plugin's output is taken away. A larger figure lets a flood use the host's CPU (about
0.3 ms for 64 KiB); a smaller one slows the plugin that floods, never another."""
TAIL_LINES: Final = 20
_CHUNK: Final = 64 * 1024
_MOST_FIELDS: Final = 20

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
_IGNORED_KEYS: Final = frozenset({"@timestamp", "timestamp", "time", "@module"})


def parse_line(text: str) -> tuple[int, str]:
    """Return the level and the message of a line that a plugin printed."""
    if not (text.startswith("{") and text.endswith("}")):
        return logging.INFO, text
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return logging.INFO, text
    message = _first(record, _MESSAGE_KEYS)
    if message is None:
        return logging.INFO, text
    level = _LEVELS.get(str(_first(record, _LEVEL_KEYS)).lower(), logging.INFO)
    return level, f"{message}{_rest(record)}"


class LineBudget:
    """Tells how many lines may pass: `burst` at once, then `rate` a second."""

    def __init__(
        self,
        rate: float = LINES_PER_SECOND,
        burst: float = LINES_AT_ONCE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._left, self._at = burst, clock()

    def take(self) -> bool:
        """Use up one line; False when there is none."""
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class PluginLog:
    """The log of one process, both pipes together."""

    def __init__(
        self,
        plugin: str,
        connector: str,
        redact: Redactor,
        budget: LineBudget | None = None,
    ) -> None:
        self._who = {"plugin": plugin, "connector": connector}
        self._name = f"{plugin}/{connector}"
        self._redact = redact
        self._budget = budget or LineBudget()
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._dropped = 0

    @property
    def tail(self) -> str:
        """The last lines, for the error of a process that ended."""
        return " | ".join(self._tail)

    @property
    def dropped(self) -> int:
        """Lines left out since the last one that was logged."""
        return self._dropped

    def line(self, raw: bytes) -> None:
        """Log a line, or count it when there are too many."""
        text = raw.decode("utf-8", "backslashreplace").strip()
        if not text:
            return
        if not self._budget.take():
            self._dropped += 1
            self._tail.append(printable(self._redact(text[:400]), 200))
            return
        self.note_dropped()
        level, message = parse_line(text)
        message = printable(self._redact(message))
        self._tail.append(printable(message, 400))
        _log.log(level, "%s: %s", self._name, message, extra=self._who)

    def note_dropped(self) -> None:
        """Say how many lines were left out."""
        if self._dropped:
            _log.warning(
                "%s: %d lines left out, it prints too much",
                self._name,
                self._dropped,
                extra=self._who,
            )
            self._dropped = 0


async def forward(
    pipe: asyncio.StreamReader,
    cutter: LineCutter,
    take: Callable[[bytes], None],
    bytes_per_second: int = BYTES_PER_SECOND,
) -> None:
    """Give each line of a pipe to `take` until the pipe ends. The plugin never waits for a log."""
    clock = asyncio.get_running_loop().time
    since, taken = clock(), 0
    while chunk := await pipe.read(_CHUNK):
        for line in cutter.feed(chunk):
            take(line)
        taken += len(chunk)
        if clock() - since >= 1:
            since, taken = clock(), 0
        elif taken >= bytes_per_second:
            await asyncio.sleep(1 - (clock() - since))
            since, taken = clock(), 0
    for line in cutter.finish():
        take(line)


def _first(record: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    return next((record[key] for key in keys if key in record), None)


def _rest(record: Mapping[str, Any]) -> str:
    named = {*_LEVEL_KEYS, *_MESSAGE_KEYS, *_IGNORED_KEYS}
    others = [(k, v) for k, v in record.items() if k not in named]
    return "".join(f" {key}={value}" for key, value in others[:_MOST_FIELDS])
