"""Translates Java's regular expressions and replacements to Python's.

Configurations are written for `java.util.regex`. Syntax that differs is translated; a construct
without an equivalent in Python is refused, never approximated.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import regex

from penstock.model.errors import ConfigError
from penstock.model.pattern import Pattern
from penstock_values.pattern import InvalidPatternError

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
        """Compile a pattern in Java's syntax.

        Raises:
            ConfigError: `transform.bad_regex`: the pattern is invalid or not supported.
        """
        try:
            return JavaPattern(Pattern.from_text("".join(_translate(text)), path, re.ASCII))
        except (InvalidPatternError, _UnsupportedSyntaxError) as error:
            raise ConfigError(
                "transform.bad_regex",
                f"`{text}` is not a supported regular expression: {error}",
                fix="Write it without this construct.",
                config_path=path,
            ) from error

    def matches(self, text: str) -> bool:
        """Whether the whole text matches, as `Matcher.matches`.

        Raises:
            ConfigError: `config.slow_pattern`.
        """
        return self.regex.matches(text)


class _UnsupportedSyntaxError(Exception):
    """A construct of Java's syntax without an equivalent in Python."""


def _translate(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        char = text[at]
        if char == "\\":
            part, at = _translate_escape(text, at)
        elif char == "[":
            part, at = _translate_class(text, at)
        elif text.startswith("(?", at):
            part, at = _translate_group(text, at)
        else:
            part, at = char, at + 1
        yield part


def _translate_escape(text: str, at: int) -> tuple[str, int]:
    char = text[at + 1 : at + 2]
    if char == "Q":
        end = text.find("\\E", at)
        end = len(text) if end < 0 else end
        return re.escape(text[at + 2 : end]), end + 2
    if char == "k" and (match := _GROUP_NAME.match(text, at + 2)):
        return f"(?P={match[1]})", match.end()
    if char in _TRANSLATED_ESCAPES:
        return _TRANSLATED_ESCAPES[char], at + 2
    if char and (char in _SAME_ESCAPES or not (char.isascii() and char.isalnum())):
        return "\\" + char, at + 2
    raise _UnsupportedSyntaxError(f"`\\{char}`")


def _translate_class(text: str, at: int) -> tuple[str, int]:
    """Translate a character class. Nesting and intersection are refused: Python has neither."""
    start, parts = at + 1, ["["]
    at = start
    if text.startswith("^", at):
        parts.append("^")
        at += 1
    first = at
    while at < len(text):
        char = text[at]
        if char == "]" and at > first:
            return "".join([*parts, "]"]), at + 1
        if char in "[]" or text.startswith(("&&", "--"), at):
            raise _UnsupportedSyntaxError(f"`{text[at : at + 2]}` in a class of characters")
        if char == "\\":
            part, at = _translate_escape(text, at)
        else:
            part, at = "\\" + char if char in "&~|" else char, at + 1
        parts.append(part)
    raise _UnsupportedSyntaxError("a class of characters that is not closed")


def _translate_group(text: str, at: int) -> tuple[str, int]:
    rest = text[at + 2 :]
    if match := _GROUP_NAME.match(rest):
        return f"(?P<{match[1]}>", at + 2 + match.end()
    if rest.startswith(_GROUPS):
        return "(?", at + 2
    if match := _FLAGS.match(rest):
        return f"(?{match[0]}", at + 2 + match.end()
    raise _UnsupportedSyntaxError(f"`(?{rest[:1]}`")


@dataclass(frozen=True, slots=True)
class JavaReplacement:
    """A replacement: literal texts, and groups by number or name."""

    parts: tuple[str | int | _NamedGroup, ...]

    @staticmethod
    def compile(text: str, pattern: JavaPattern, path: str) -> JavaReplacement:
        r"""Compile a replacement in Java's syntax: `$1`, `${name}`, `\` escapes a character.

        Raises:
            ConfigError: it names a group that the pattern does not have, or is incomplete.
        """
        try:
            return JavaReplacement(tuple(_parse_parts(text, pattern.regex)))
        except _UnsupportedSyntaxError as error:
            raise ConfigError(
                "transform.bad_replacement",
                f"`{text}` is not a valid replacement: {error}",
                fix="Groups are `$1` or `${name}`; write `\\$` for a dollar sign.",
                config_path=path,
            ) from error

    def replace_first(self, pattern: JavaPattern, text: str) -> str:
        """Return a text with the first match replaced.

        Raises:
            ConfigError: `config.slow_pattern`.
        """
        match = pattern.regex.search(text)
        if match is None:
            return text
        new = "".join(_expand(part, match) for part in self.parts)
        return text[: match.start()] + new + text[match.end() :]

    def replace_all(self, pattern: JavaPattern, texts: Iterable[str]) -> list[str]:
        """Return the texts with every match replaced.

        Raises:
            ConfigError: `config.slow_pattern`.
        """
        return pattern.regex.replace_all(
            texts, lambda match: "".join(_expand(part, match) for part in self.parts)
        )


@dataclass(frozen=True, slots=True)
class _NamedGroup:
    """A group by name."""

    name: str


def _expand(part: str | int | _NamedGroup, match: regex.Match[str]) -> str:
    match part:
        case str():
            return part
        case int():
            return match[part] or ""
    return match[part.name] or ""


def _parse_parts(text: str, pattern: Pattern) -> Iterator[str | int | _NamedGroup]:
    at = 0
    while at < len(text):
        char, after = text[at], text[at + 1 : at + 2]
        if char not in "\\$":
            yield char
            at += 1
        elif not after:
            raise _UnsupportedSyntaxError(f"`{char}` at its end")
        elif char == "\\":
            yield after
            at += 2
        else:
            part, at = _parse_reference(text, at + 1, pattern)
            yield part


def _parse_reference(text: str, at: int, pattern: Pattern) -> tuple[int | _NamedGroup, int]:
    match = re.compile(r"\{([A-Za-z][A-Za-z0-9]*)\}").match(text, at)
    if match:
        if match[1] not in pattern.names:
            raise _UnsupportedSyntaxError(f"there is no group `{match[1]}`")
        return _NamedGroup(match[1]), match.end()
    digits = re.compile("[0-9]+").match(text, at)
    if digits is None:
        raise _UnsupportedSyntaxError("`$` names no group")
    number, end = int(text[at]), at + 1
    if number > pattern.groups:
        raise _UnsupportedSyntaxError(f"there is no group {number}")
    # Java takes further digits as long as there is such a group: `$12` may be group 1 and a 2.
    while end < digits.end() and number * 10 + int(text[end]) <= pattern.groups:
        number, end = number * 10 + int(text[end]), end + 1
    return number, end
