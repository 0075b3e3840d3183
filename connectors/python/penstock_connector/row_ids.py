"""Ids of rows in brokers without transactions: by them a consumer knows what came again. Pure."""

from __future__ import annotations

import hashlib


def row_id(task_id: str, txn_id: int, number: int, hashed: int | None, body: bytes) -> bytes:
    """Return what names a row: its place in the task, and what it holds.

    After a crash a transaction has its number again, and the rows that were sent already come again
    in the same places, if their source gives them in the same order. If it does not, another row is
    in a place: by what it holds it is not taken for the one that was there.

    Args:
        task_id: The task.
        txn_id: The transaction.
        number: Place of the row in it.
        hashed: Hash of the row's key; None without one.
        body: The bytes that are sent.
    """
    digest = hashlib.blake2b(body, digest_size=8).hexdigest()
    return f"{task_id}:{txn_id}:{number}:{(hashed or 0) & 0xFFFFFFFF:08x}{digest}".encode()
