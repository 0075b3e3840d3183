"""Names and texts as Spark SQL, quoted so that nothing in them is read as anything else."""

from __future__ import annotations

from typing import Final

from penstock.model.errors import ConfigError

_SUBSTITUTION: Final = "${"
"""Spark replaces `${…}` by its settings, system properties and environment variables before it
parses, inside quotes too. A text that keeps this pair of signs would read the engine's environment
(invariant 9)."""

_ESCAPED: Final = {"\\": "\\\\", "'": "\\'", "$": "\\u0024", "\0": "\\u0000"}


def has_substitution(text: str) -> bool:
    """Tell whether Spark would replace a part of a text before it parses it."""
    return _SUBSTITUTION in text


def name(text: str) -> str:
    """Return a column name in backticks, whatever it contains.

    Raises:
        ConfigError: Spark has no way to write it.
    """
    if not text or has_substitution(text) or not _is_unicode(text):
        raise ConfigError(
            "transform.bad_name",
            f"{text!r} cannot be the name of a column",
            fix="Names have at least one character and no `${`.",
        )
    return "`" + text.replace("`", "``") + "`"


def literal(text: str) -> str:
    """Return a string literal that Spark reads as exactly this text.

    Raises:
        ConfigError: it is not a Unicode text.
    """
    if not _is_unicode(text):
        raise ConfigError(
            "transform.bad_text", f"{text!r} is not a Unicode text", fix="Correct it."
        )
    return "'" + "".join(_ESCAPED.get(sign, sign) for sign in text) + "'"


def _is_unicode(text: str) -> bool:
    """Tell whether a text can be UTF-8: half a surrogate pair cannot."""
    return not any("\ud800" <= sign <= "\udfff" for sign in text)
