"""Names of topics, and filters of them. Pure."""

from __future__ import annotations

from typing import Final

MOST_BYTES: Final = 65_535


def problem_of_name(topic: str) -> str:
    """Return why messages cannot be sent to a topic; empty when they can."""
    if any(sign in topic for sign in "+#"):
        return "`+` and `#` are of filters"
    return _problem(topic)


def problem_of_filter(text: str) -> str:
    """Return why a text is no filter of topics; empty when it is one."""
    levels = text.split("/")
    if text.startswith("$share/"):
        return "a group is set by `mqtt.share.group`"
    if any("#" in one for one in levels[:-1]) or ("#" in levels[-1] and levels[-1] != "#"):
        return "`#` is a whole level, and the last one"
    if any("+" in one and one != "+" for one in levels):
        return "`+` is a whole level"
    return _problem(text)


def _problem(text: str) -> str:
    if not text:
        return "it is empty"
    if "\0" in text:
        return "it has a null character"
    if len(text.encode()) > MOST_BYTES:
        return f"it has more than {MOST_BYTES} bytes"
    return ""
