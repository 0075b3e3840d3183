"""Task plans as chunks under a generation. Pure.

The plans of a connector may name a hundred thousand partitions. They are stored as one text of
bytes, cut into chunks, so that no value of the store is large.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

from penstock.config.stored import chunk_key, index_key
from penstock.model.errors import ConfigError

CHUNK_BYTES: Final = 512 << 10
"""Bytes in a chunk. etcd takes values up to 1.5 MB; smaller ones only make more keys."""


def check_task_ids(generation: str, task_ids: Sequence[str]) -> None:
    """Refuse plans that are not this generation's, or name a task twice (invariant 10).

    Raises:
        ConfigError: `config.plan_task_id`.
    """
    form = re.compile(re.escape(generation) + r"-[0-9]+")
    wrong = [id_ for id_ in task_ids if not form.fullmatch(id_)]
    if wrong or len(set(task_ids)) < len(task_ids):
        raise ConfigError(
            "config.plan_task_id",
            f"task ids must be {generation}-<number>, each once"
            + (f", not {wrong[0][:100]!r}" if wrong else ""),
            fix="Plan the connector again, for the generation that it has now.",
        )


def puts(generation: str, body: bytes) -> list[tuple[str, bytes | None]]:
    """Return the index and the chunks for the body of a generation's plans."""
    chunks = [body[at : at + CHUNK_BYTES] for at in range(0, len(body), CHUNK_BYTES)]
    index = json.dumps({"chunks": len(chunks)}).encode()
    stored: list[tuple[str, bytes | None]] = [(index_key(generation), index)]
    stored.extend((chunk_key(generation, n), chunk) for n, chunk in enumerate(chunks))
    return stored


def chunk_keys(generation: str, index: bytes) -> list[str]:
    """Return the keys of the chunks that an index tells of, in order."""
    count = json.loads(index)["chunks"]
    return [chunk_key(generation, number) for number in range(count)]
