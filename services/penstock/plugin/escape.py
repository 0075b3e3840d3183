"""Text of plugins made fit for a log, a status and a terminal: one bounded line, nothing unseen."""

from __future__ import annotations

from typing import Final

MOST_CHARACTERS: Final = 4_000
"""Longest text taken from a plugin. Longer ones are stack traces that belong in the plugin's own
log."""


def printable(text: str, most: int = MOST_CHARACTERS) -> str:
    """Return the text cut to `most` characters, control and direction characters escaped."""
    if len(text) > most:
        text = text[:most] + "…"
    if text.isprintable():
        return text
    return "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")
