"""Java's regular expressions and replacements, as far as Python's can mean the same.

Configurations are written for `java.util.regex`. What is written or decided otherwise there is
translated; what has no equal here is refused, never approximated.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import regex

from penstock.model.errors import ConfigError
from penstock.model.pattern import NoPatternError, Pattern

_SAME_ESCAPES: Final = frozenset("dDsSwWbBAtnrfaxu123456789")
_TRANSLATED_ESCAPES: Final = {"z": r"\Z"}
_GROUP_NAME: Final = re.compile(r"<([A-Za-z][A-Za-z0-9]*)>")
_GROUPS: Final = (":", "=", "!", ">", "<=", "<!")
_FLAGS: Final = re.compile(r"[ims]+[:)]")


@dataclass(frozen=True, slots=True)
class JavaPattern:
    r"""A compiled pattern. Classes like `\w` are ASCII, as they are in Java."""

    regex: Pattern

    @staticmethod
    def compile(text: str, path: str) -> JavaPattern:
        """Compile what was written for Java.

        Raises:
            ConfigError: it is not a pattern, or uses what has no equal here.
        """
        try:
            return JavaPattern(Pattern.compile("".join(_translated(text)), path, re.ASCII))
        except (NoPatternError, _NoEqual) as error:
            raise ConfigError(
                "transform.bad_regex",
                f"`{text}` is not a regular expression that can be used here: {error}",
                fix="Write it without this construct.",
                config_path=path,
            ) from error

    def matches(self, text: str) -> bool:
        """Tell whether all of a text matches, as `Matcher.matches` does.

        Raises:
            ConfigError: `config.slow_pattern`.
        """
        return self.regex.matches(text)


class _NoEqual(Exception):  # noqa: N818 - becomes a ConfigError at once
    """A construct of Java's that Python does not have."""


def _translated(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        sign = text[at]
        if sign == "\\":
            part, at = _escape(text, at)
        elif sign == "[":
            part, at = _class(text, at)
        elif text.startswith("(?", at):
            part, at = _group(text, at)
        else:
            part, at = sign, at + 1
        yield part


def _escape(text: str, at: int) -> tuple[str, int]:
    sign = text[at + 1 : at + 2]
    if sign == "Q":
        end = text.find("\\E", at)
        end = len(text) if end < 0 else end
        return re.escape(text[at + 2 : end]), end + 2
    if sign == "k" and (match := _GROUP_NAME.match(text, at + 2)):
        return f"(?P={match[1]})", match.end()
    if sign in _TRANSLATED_ESCAPES:
        return _TRANSLATED_ESCAPES[sign], at + 2
    if sign and (sign in _SAME_ESCAPES or not (sign.isascii() and sign.isalnum())):
        return "\\" + sign, at + 2
    raise _NoEqual(f"`\\{sign}`")


def _class(text: str, at: int) -> tuple[str, int]:
    """Return a character class. Java's may nest and intersect; Python's may not."""
    start, parts = at + 1, ["["]
    at = start
    if text.startswith("^", at):
        parts.append("^")
        at += 1
    first = at
    while at < len(text):
        sign = text[at]
        if sign == "]" and at > first:
            return "".join([*parts, "]"]), at + 1
        if sign in "[]" or text.startswith(("&&", "--"), at):
            raise _NoEqual(f"`{text[at : at + 2]}` in a class of characters")
        if sign == "\\":
            part, at = _escape(text, at)
        else:
            part, at = "\\" + sign if sign in "&~|" else sign, at + 1
        parts.append(part)
    raise _NoEqual("a class of characters that is not closed")


def _group(text: str, at: int) -> tuple[str, int]:
    rest = text[at + 2 :]
    if match := _GROUP_NAME.match(rest):
        return f"(?P<{match[1]}>", at + 2 + match.end()
    if rest.startswith(_GROUPS):
        return "(?", at + 2
    if match := _FLAGS.match(rest):
        return f"(?{match[0]}", at + 2 + match.end()
    raise _NoEqual(f"`(?{rest[:1]}`")


@dataclass(frozen=True, slots=True)
class JavaReplacement:
    """A replacement: texts, and groups by number or name."""

    parts: tuple[str | int | _Named, ...]

    @staticmethod
    def compile(text: str, pattern: JavaPattern, path: str) -> JavaReplacement:
        r"""Compile what was written for `Matcher.replaceFirst`: `$1`, `${name}`, `\` before a sign.

        Raises:
            ConfigError: it names a group that the pattern does not have, or ends too early.
        """
        try:
            return JavaReplacement(tuple(_parts(text, pattern.regex)))
        except _NoEqual as error:
            raise ConfigError(
                "transform.bad_replacement",
                f"`{text}` cannot replace anything: {error}",
                fix="Groups are `$1` or `${name}`; write `\\$` for the sign itself.",
                config_path=path,
            ) from error

    def first(self, pattern: JavaPattern, text: str) -> str:
        """Return a text with the first place that matches replaced.

        Raises:
            ConfigError: `config.slow_pattern`.
        """
        match = pattern.regex.search(text)
        if match is None:
            return text
        new = "".join(_expanded(part, match) for part in self.parts)
        return text[: match.start()] + new + text[match.end() :]

    def all(self, pattern: JavaPattern, texts: Iterable[str]) -> list[str]:
        """Return texts, each with every place that matches replaced.

        Raises:
            ConfigError: `config.slow_pattern`.
        """
        return pattern.regex.replaced(
            texts, lambda match: "".join(_expanded(part, match) for part in self.parts)
        )


@dataclass(frozen=True, slots=True)
class _Named:
    """A group by name."""

    name: str


def _expanded(part: str | int | _Named, match: regex.Match[str]) -> str:
    match part:
        case str():
            return part
        case int():
            return match[part] or ""
    return match[part.name] or ""


def _parts(text: str, pattern: Pattern) -> Iterator[str | int | _Named]:
    at = 0
    while at < len(text):
        sign, after = text[at], text[at + 1 : at + 2]
        if sign not in "\\$":
            yield sign
            at += 1
        elif not after:
            raise _NoEqual(f"`{sign}` at its end")
        elif sign == "\\":
            yield after
            at += 2
        else:
            part, at = _reference(text, at + 1, pattern)
            yield part


def _reference(text: str, at: int, pattern: Pattern) -> tuple[int | _Named, int]:
    match = re.compile(r"\{([A-Za-z][A-Za-z0-9]*)\}").match(text, at)
    if match:
        if match[1] not in pattern.names:
            raise _NoEqual(f"there is no group `{match[1]}`")
        return _Named(match[1]), match.end()
    digits = re.compile("[0-9]+").match(text, at)
    if digits is None:
        raise _NoEqual("`$` names no group")
    number, end = int(text[at]), at + 1
    if number > pattern.groups:
        raise _NoEqual(f"there is no group {number}")
    # Java takes further digits as long as there is such a group: `$12` may be group 1 and a 2.
    while end < digits.end() and number * 10 + int(text[end]) <= pattern.groups:
        number, end = number * 10 + int(text[end]), end + 1
    return number, end
