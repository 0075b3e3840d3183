"""A topic's name as one element of a path, whatever is in it, and back.

What is not plain becomes `~` and two digits for each byte. Not `%`: paths of tables are URLs, and
Delta's library takes an escape in them for what it stands for once too often.
"""

from __future__ import annotations

import re

from penstock.model.errors import ConfigError

_PLAIN = re.compile(r"[A-Za-z0-9_\-][A-Za-z0-9._\-]*")
_ESCAPE = re.compile(rb"~([0-9A-F]{2})")
_MOST_BYTES = 200


def folder_of(topic: str) -> str:
    """Return the folder name of a topic: plain names as they are, all else escaped.

    Raises:
        ConfigError: `topic.bad_name`: empty, or too long for a file system.
    """
    encoded = "".join(_encoded(c) for c in topic)
    if encoded.startswith("."):
        encoded = f"~2E{encoded[1:]}"
    if not topic or len(encoded) > _MOST_BYTES:
        raise ConfigError(
            "topic.bad_name",
            f"{topic[:80]!r} cannot be the name of a topic",
            fix=f"Use 1 to {_MOST_BYTES} characters; letters, digits, `.`, `_` and `-` count one.",
        )
    return encoded


def topic_of(folder: str) -> str:
    """Return the topic whose folder has this name."""
    bytes_ = _ESCAPE.sub(lambda match: bytes([int(match[1], 16)]), folder.encode())
    return bytes_.decode(errors="replace")


def _encoded(character: str) -> str:
    if _PLAIN.fullmatch(character) or character == ".":
        return character
    return "".join(f"~{byte:02X}" for byte in character.encode())
