"""penstock.api.worker.v1, dead letters ↔ `penstock.model.replay`."""

from __future__ import annotations

import json

from penstock.api.worker.v1 import worker_service_pb2 as pb
from penstock.model.errors import Diagnostic
from penstock.model.replay import (
    MOST_LETTERS,
    USUAL_LETTERS,
    LetterCount,
    LetterFound,
    LetterId,
    LetterQuery,
    LettersTold,
    read_changes,
    read_ids,
    written_ids,
)
from penstock.wire import error


def query_to_proto(query: LetterQuery) -> pb.ReadLettersRequest:
    """Return the message for a question."""
    changes = query.changes
    return pb.ReadLettersRequest(
        topic=query.topic,
        connector=query.connector,
        ids=[written_ids([letter]) for letter in query.ids],
        stage=query.stage,
        code=query.code,
        dataset=query.dataset,
        since_us=query.since_us,
        limit=query.limit,
        replays=query.replays,
        waiting=query.waiting,
        whole=query.whole,
        set_json=json.dumps(changes.every) if changes.every else "",
        edits={str(letter): json.dumps(one) for letter, one in changes.single.items()},
    )


def query_from_proto(message: pb.ReadLettersRequest) -> LetterQuery:
    """Return the question of a message, within its bounds.

    Raises:
        ConfigError: `letters.no_id`, `letters.too_many`, `letters.bad_edit`.
    """
    return LetterQuery(
        message.topic,
        message.connector,
        tuple(read_ids(",".join(message.ids))),
        message.stage,
        message.code,
        message.dataset,
        message.since_us,
        min(message.limit or USUAL_LETTERS, MOST_LETTERS),
        message.replays,
        message.waiting,
        message.whole,
        read_changes(message.set_json, message.edits),
    )


def told_to_proto(told: LettersTold) -> pb.ReadLettersResponse:
    """Return the message for a part of an answer."""
    counts = [
        pb.LetterCount(
            stage=one.stage,
            code=one.code,
            dataset=one.dataset,
            letters=one.letters,
            replayed=one.replayed,
        )
        for one in told.counts
    ]
    letters = [_letter_to_proto(letter) for letter in told.letters]
    return pb.ReadLettersResponse(counts=counts, more=told.more, letters=letters)


def told_from_proto(message: pb.ReadLettersResponse) -> LettersTold:
    """Return the part of an answer in a message."""
    counts = tuple(
        LetterCount(one.stage, one.code, one.dataset, one.letters, one.replayed)
        for one in message.counts
    )
    return LettersTold(counts, message.more, tuple(map(_letter_from_proto, message.letters)))


def _letter_to_proto(letter: LetterFound) -> pb.DeadLetter:
    return pb.DeadLetter(
        id=str(letter.id),
        connector=letter.connector,
        task_id=letter.task,
        stage=letter.stage,
        reason=error.to_proto(letter.reason),
        dataset=letter.dataset,
        partition=letter.partition,
        epoch=letter.epoch,
        txn_id=letter.transaction,
        failed_at_us=letter.failed_at_us,
        replayed=letter.replayed,
        has_row=letter.has_row,
        row_json=letter.row,
        raw=letter.raw,
        headers=letter.headers,
        offset=letter.offset,
        attempt=letter.attempt,
    )


def _letter_from_proto(message: pb.DeadLetter) -> LetterFound:
    (id_,) = read_ids(message.id) or (LetterId(0, 0),)
    reason: Diagnostic = error.from_proto(message.reason)
    return LetterFound(
        id_,
        message.connector,
        message.task_id,
        message.stage,
        reason,
        message.dataset,
        message.partition,
        message.epoch,
        message.txn_id,
        message.failed_at_us,
        message.replayed,
        message.has_row,
        message.row_json,
        message.raw,
        dict(message.headers),
        message.offset,
        message.attempt if message.HasField("attempt") else None,
    )
