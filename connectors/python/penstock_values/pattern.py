"""Regular expressions from configurations, matched with a timeout.

Some expressions take centuries to reject a text, and a thread inside of a match serves no other
request and sends no heartbeat: each match has a timeout. Patterns have the meaning of Python's
`re`. The library `regex`, which has timeouts, has more syntax (`{e}` for fuzzy matches,
`[[:alpha:]]`); it is escaped here, so that it means what it means in `re`.
"""

from __future__ import annotations

import functools
import operator
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Final, Protocol, Self, TypeVar

import regex

MATCH_TIMEOUT_S: Final = 0.25
"""Timeout of one text. A name takes microseconds. A shorter timeout could fail on a busy machine; a
longer one blocks the process for longer."""

LIST_TIMEOUT_S: Final = 2.5
"""Timeout of a list of texts. A million names take one second."""

_WORK_S: Final = 0.05
"""CPU time of a match that timed out because of its pattern. A list may leave less for its last
texts."""

_MAX_STALLS: Final = 20

_T = TypeVar("_T")

_PART: Final = re.compile(
    r"\\N\{[^}]*\}|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{(?!\d+\}|\d*,\d*\})", re.DOTALL
)
"""Syntax that may mean something else in `regex`: classes, and braces that do not repeat."""

_IN_CLASS: Final = re.compile(r"\\.|[\[&~|]", re.DOTALL)


class InvalidPatternError(ValueError):
    """A text is not a regular expression."""


class ConfigErrorType(Protocol):
    """The class of errors in a configuration. The host and the SDK each have their own."""

    def __call__(self, code: str, message: str, *, fix: str, config_path: str) -> Exception:
        """Make the error."""


@dataclass(frozen=True, slots=True)
class TimedPattern:
    """A compiled pattern. Subclasses of the host and of the SDK set the class of its errors.

    Attributes:
        text: The pattern as the user wrote it.
        config_path: The key of the configuration that it is from.
    """

    config_error: ClassVar[ConfigErrorType]

    text: str
    config_path: str
    _flags: re.RegexFlag
    _compiled: regex.Pattern[str] = field(repr=False, compare=False)

    @classmethod
    def from_text(cls, text: str, config_path: str, flags: re.RegexFlag = re.NOFLAG) -> Self:
        """Compile a pattern, for a caller that reports an invalid one with a code of its own.

        Raises:
            InvalidPatternError: the text is not a regular expression.
        """
        try:
            plain = _PART.sub(_escape_part, text)
            re.compile(plain, flags)
            theirs = (regex.RegexFlag[str(flag.name)] for flag in flags)
            compiled = regex.compile(plain, functools.reduce(operator.or_, theirs, regex.VERSION0))
            return cls(text, config_path, flags, compiled)
        except (re.error, regex.error, ValueError, RecursionError, OverflowError) as error:
            raise InvalidPatternError(str(error)) from None

    @classmethod
    def parse(cls, text: str, config_path: str, flags: re.RegexFlag = re.NOFLAG) -> Self:
        """Compile the pattern of a configuration key.

        Raises:
            ConfigError: `config.bad_pattern`.
        """
        try:
            return cls.from_text(text, config_path, flags)
        except InvalidPatternError as error:
            raise cls.config_error(
                "config.bad_pattern",
                f"`{config_path}`: {text[:200]!r} is not a regular expression: {error}",
                fix="Correct it. A name without special characters matches itself.",
                config_path=config_path,
            ) from None

    @property
    def groups(self) -> int:
        """The number of groups."""
        return self._compiled.groups

    @property
    def names(self) -> Collection[str]:
        """The names of the groups."""
        return self._compiled.groupindex.keys()

    def matches(self, text: str, timeout_s: float = MATCH_TIMEOUT_S) -> bool:
        """Whether the whole text matches.

        Raises:
            ConfigError: `config.slow_pattern`.
        """
        return (
            self._timed(lambda: self._compiled.fullmatch(text, timeout=timeout_s), text) is not None
        )

    def filter(self, texts: Iterable[str]) -> list[str]:
        """Return those texts that match as a whole.

        Raises:
            ConfigError: `config.slow_pattern`.
        """
        return [text for text, left in self._with_timeouts(texts) if self.matches(text, left)]

    def search(self, text: str) -> regex.Match[str] | None:
        """Return the first match in a text.

        Raises:
            ConfigError: `config.slow_pattern`.
        """
        return self._timed(lambda: self._compiled.search(text, timeout=MATCH_TIMEOUT_S), text)

    def replace_all(
        self, texts: Iterable[str], new: Callable[[regex.Match[str]], str]
    ) -> list[str]:
        """Return the texts with every match replaced.

        Raises:
            ConfigError: `config.slow_pattern`.
        """
        return [self._replace(text, new, left) for text, left in self._with_timeouts(texts)]

    def _replace(self, text: str, new: Callable[[regex.Match[str]], str], timeout_s: float) -> str:
        return self._timed(lambda: self._compiled.sub(new, text, timeout=timeout_s), text)

    def _timed(self, match: Callable[[], _T], text: str) -> _T:
        """Return what a match returns. Its timeout is one of the wall clock: a match that had no
        processor in the meantime is tried again.
        """
        for _ in range(_MAX_STALLS):
            began = time.thread_time()
            try:
                return match()
            except TimeoutError:
                if time.thread_time() - began > _WORK_S:
                    break
        raise self._slow_pattern(text)

    def _with_timeouts(self, texts: Iterable[str]) -> Iterator[tuple[str, float]]:
        """Yield the texts of a list, each with its timeout."""
        end = time.monotonic() + LIST_TIMEOUT_S
        for text in texts:
            left = end - time.monotonic()
            if left <= 0:
                raise self._slow_pattern(text)
            yield text, min(left, MATCH_TIMEOUT_S)

    def _slow_pattern(self, text: str) -> Exception:
        return self.config_error(
            "config.slow_pattern",
            f"`{self.config_path}`: matching the pattern {self.text[:200]!r} against "
            f"{text[:200]!r} takes too long",
            fix="Write it so that a text can match in one way only: no repetition inside of a "
            "repetition, no alternatives with a common beginning.",
            config_path=self.config_path,
        )


def _escape_part(found: re.Match[str]) -> str:
    part = found[0]
    if part == "{":
        return r"\{"
    if part.startswith("["):
        return "[" + _IN_CLASS.sub(_escape_literal, part[1:])
    return part


def _escape_literal(found: re.Match[str]) -> str:
    return found[0] if len(found[0]) > 1 else f"\\{found[0]}"
