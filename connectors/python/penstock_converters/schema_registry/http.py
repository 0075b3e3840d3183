"""One question over HTTP, bounded in time and size."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import httpcore

MAX_BYTES: Final = 16 << 20
"""Bytes of an answer."""


class AnswerTooLongError(Exception):
    """An answer has more than `MAX_BYTES`."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds to connect, and for an answer."""

    connect_s: float = 5.0
    read_s: float = 15.0


def exchange(
    pool: httpcore.ConnectionPool,
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes | None,
    timeouts: Timeouts,
) -> tuple[int, bytes]:
    """Return status and content of an answer.

    Raises:
        AnswerTooLongError: it has too many bytes.
        Exception: those of httpcore.
    """
    bounds = {
        "connect": timeouts.connect_s, "read": timeouts.read_s,
        "write": timeouts.read_s, "pool": timeouts.connect_s,
    }  # fmt: skip
    with pool.stream(
        method, url, headers=list(headers.items()), content=body, extensions={"timeout": bounds}
    ) as answer:
        content = b""
        deadline = time.monotonic() + timeouts.read_s
        for piece in answer.iter_stream():
            content += piece
            if len(content) > MAX_BYTES:
                raise AnswerTooLongError
            if time.monotonic() > deadline:
                raise httpcore.ReadTimeout("the answer does not end")
        return answer.status, content


def text_of(content: bytes) -> str:
    """Return the beginning of an answer, for a message."""
    return " ".join(content[:300].decode("utf-8", "replace").split())
