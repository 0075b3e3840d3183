"""Regular expressions that configurations bring, matched within a time.

Some take longer than anybody lives to say that a text does not match, and a thread that is inside
of one answers nobody: each match has a bound (invariant 12). What they mean is what Python's `re`
says. The library that has bounds knows more (`{e}` for mistakes, `[[:alpha:]]`), which means what
it does in `re` here, too.
"""

from __future__ import annotations

import functools
import operator
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import regex

from penstock.model.errors import ConfigError

WITHIN: Final = 0.25
"""Seconds for one text. A name takes microseconds; less could fail one on a machine that is busy,
and a process would answer nobody for longer with more."""

ALL_WITHIN: Final = 2.5
"""Seconds for all texts of a list. A million names take one."""

_PART: Final = re.compile(
    r"\\N\{[^}]*\}|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{(?!\d+\}|\d*,\d*\})", re.DOTALL
)
"""What may mean something else to the library: classes, and braces that do not repeat."""

_IN_CLASS: Final = re.compile(r"\\.|[\[&~|]", re.DOTALL)


class NoPatternError(ValueError):
    """A text is no regular expression."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled pattern.

    Attributes:
        text: What was written.
        path: The key that it was written at.
    """

    text: str
    path: str
    _flags: re.RegexFlag
    _compiled: regex.Pattern[str] = field(repr=False, compare=False)

    @staticmethod
    def compile(text: str, path: str, flags: re.RegexFlag = re.NOFLAG) -> Pattern:
        """Compile a pattern that is written at the key `path`.

        Raises:
            NoPatternError: it is none.
        """
        try:
            plain = _PART.sub(_escaped, text)
            re.compile(plain, flags)
            theirs = (regex.RegexFlag[str(flag.name)] for flag in flags)
            compiled = regex.compile(plain, functools.reduce(operator.or_, theirs, regex.VERSION0))
            return Pattern(text, path, flags, compiled)
        except (re.error, regex.error, ValueError, RecursionError, OverflowError) as error:
            raise NoPatternError(str(error)) from None

    @property
    def groups(self) -> int:
        """How many groups it has."""
        return self._compiled.groups

    @property
    def names(self) -> Collection[str]:
        """The names of its groups."""
        return self._compiled.groupindex.keys()

    def matches(self, text: str, within: float = WITHIN) -> bool:
        """Tell whether all of a text matches.

        Raises:
            ConfigError: `config.slow_pattern`.
        """
        try:
            return self._compiled.fullmatch(text, timeout=within) is not None
        except TimeoutError:
            raise self._slow(text) from None

    def among(self, texts: Iterable[str]) -> list[str]:
        """Return those texts that match wholly.

        Raises:
            ConfigError: `config.slow_pattern`.
        """
        return [text for text, left in self._each(texts) if self.matches(text, left)]

    def search(self, text: str) -> regex.Match[str] | None:
        """Return the first place that matches.

        Raises:
            ConfigError: `config.slow_pattern`.
        """
        try:
            return self._compiled.search(text, timeout=WITHIN)
        except TimeoutError:
            raise self._slow(text) from None

    def replaced(self, texts: Iterable[str], new: Callable[[regex.Match[str]], str]) -> list[str]:
        """Return texts, each with every place that matches replaced.

        Raises:
            ConfigError: `config.slow_pattern`.
        """
        return [self._replaced(text, new, left) for text, left in self._each(texts)]

    def _replaced(self, text: str, new: Callable[[regex.Match[str]], str], within: float) -> str:
        try:
            return self._compiled.sub(new, text, timeout=within)
        except TimeoutError:
            raise self._slow(text) from None

    def _each(self, texts: Iterable[str]) -> Iterator[tuple[str, float]]:
        """Iterate over the texts of a list, each with the seconds that it may take."""
        end = time.monotonic() + ALL_WITHIN
        for text in texts:
            left = end - time.monotonic()
            if left <= 0:
                raise self._slow(text)
            yield text, min(left, WITHIN)

    def _slow(self, text: str) -> ConfigError:
        return ConfigError(
            "config.slow_pattern",
            f"the pattern {self.text[:200]!r} takes too long to be compared with {text[:200]!r}",
            fix="Write it so that a text can match in one way only: no repetition inside of a "
            "repetition, no alternatives that begin alike.",
            config_path=self.path,
        )


def read_pattern(text: str, path: str) -> Pattern:
    """Return the pattern that a key has.

    Raises:
        ConfigError: `config.bad_pattern`.
    """
    try:
        return Pattern.compile(text, path)
    except NoPatternError as error:
        raise ConfigError(
            "config.bad_pattern",
            f"`{path}` is no regular expression: {error}",
            fix="Correct it; a name without special characters means itself.",
            config_path=path,
        ) from None


def _escaped(found: re.Match[str]) -> str:
    part = found[0]
    if part == "{":
        return r"\{"
    if part.startswith("["):
        return "[" + _IN_CLASS.sub(_literal, part[1:])
    return part


def _literal(found: re.Match[str]) -> str:
    return found[0] if len(found[0]) > 1 else f"\\{found[0]}"
