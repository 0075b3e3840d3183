"""Rows and dead letters in one transaction, however each of the two places commits."""

import asyncio

import pytest

from penstock.model.connector import CommitMode
from penstock.model.dead_letter import DEAD_LETTER_SCHEMA
from penstock.model.errors import ConfigError, Diagnostic, ErrorClass, RetriableError
from penstock.model.stream import (
    FailedRow,
    FailedRowsError,
    PreparedTxn,
    PutSlot,
    WriteOpened,
)
from penstock.worker.dead_letters.dead_letter_writer import SinkWithDeadLetters

TWO_PHASE, SINK = CommitMode.TWO_PHASE, CommitMode.SINK


class Place:
    """A sink that records its calls."""

    def __init__(self, log, name, mode=TWO_PHASE):
        self.log, self.name, self.mode = log, name, mode
        self.opened = self.schema = self.error = None
        self.reports_failed_rows = False

    async def open(self, epoch, commit_mode, last_prepared, recover):
        self.opened = (last_prepared, recover)
        return WriteOpened(self.mode, reports_failed_rows=self.reports_failed_rows)

    async def apply_schema(self, schema):
        self.schema = schema

    def ticket(self, txn_id, slot, schema_id):
        return {"kind": self.name, "slot": slot}

    async def prepare(self, txn_id, slots, token):
        self.log.append((self.name, "prepare", txn_id, len(slots)))
        if self.error is not None:
            raise self.error
        return PreparedTxn(txn_id, 1, f"{self.name}{txn_id}".encode(), token)

    async def commit(self, txn_id):
        self.log.append((self.name, "commit", txn_id))

    async def close(self, grace):
        self.log.append((self.name, "close"))


def both(rows=TWO_PHASE, letters=TWO_PHASE):
    log = []
    place = Place(log, "letters", letters)
    return log, place, SinkWithDeadLetters(Place(log, "rows", rows), place, "dead")


async def transaction(writer, txn_id, *, letters=1):
    if letters:
        writer.stage(txn_id, [PutSlot(0, 0, letters)])
    prepared = await writer.prepare(txn_id, [], b"token")
    await writer.commit(txn_id)
    return prepared


def test_both_prepared_states_are_one_and_dead_letters_are_visible_first():
    async def main():
        log, place, writer = both()
        await writer.open(1, CommitMode.UNSPECIFIED, None, recover=False)
        assert (place.schema.dataset, place.schema.arrow) == ("dead", DEAD_LETTER_SCHEMA)
        prepared = await transaction(writer, 7)
        assert log == [
            ("letters", "prepare", 7, 1),
            ("rows", "prepare", 7, 0),
            ("letters", "commit", 7),
            ("rows", "commit", 7),
        ]
        log, place, writer = both()
        await writer.open(2, CommitMode.UNSPECIFIED, prepared, recover=True)
        assert place.opened == (PreparedTxn(7, 1, b"letters7", b"token"), True)
        assert writer._rows.opened == (PreparedTxn(7, 1, b"rows7", b"token"), True)

    asyncio.run(main())


def test_a_transaction_without_dead_letters_is_that_of_the_rows_alone():
    async def main():
        log, place, writer = both()
        await writer.open(1, CommitMode.UNSPECIFIED, None, recover=False)
        prepared = await transaction(writer, 7, letters=0)
        assert prepared.state == b"rows7"
        assert log == [("rows", "prepare", 7, 0), ("rows", "commit", 7)]
        await writer.open(2, CommitMode.UNSPECIFIED, prepared, recover=True)
        assert place.opened == (None, True)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("rows", "letters"), [(SINK, TWO_PHASE), (TWO_PHASE, CommitMode.IDEMPOTENT)]
)
def test_without_two_phases_dead_letters_are_visible_before_rows(rows, letters):
    """A crash in between repeats dead letters, and loses none."""

    async def main():
        log, _, writer = both(rows, letters)
        await writer.open(1, CommitMode.UNSPECIFIED, None, recover=False)
        prepared = await transaction(writer, 7)
        assert prepared.state == b"rows7"
        assert [entry[:2] for entry in log] == [
            ("letters", "prepare"),
            ("letters", "commit"),
            ("rows", "prepare"),
            ("rows", "commit"),
        ]

    asyncio.run(main())


def test_a_repeated_commit_shows_dead_letters_once():
    async def main():
        log, _, writer = both()
        await writer.open(1, CommitMode.UNSPECIFIED, None, recover=False)
        await transaction(writer, 7)
        await writer.commit(7)
        assert [entry[0] for entry in log if entry[1] == "commit"] == ["letters", "rows", "rows"]

    asyncio.run(main())


def test_prepared_dead_letters_whose_place_was_removed_are_an_error():
    async def main():
        _, _, writer = both()
        await writer.open(1, CommitMode.UNSPECIFIED, None, recover=False)
        prepared = await transaction(writer, 7)
        alone = SinkWithDeadLetters(Place([], "rows"), None)
        with pytest.raises(ConfigError, match=r"errors\.place_gone"):
            await alone.open(2, CommitMode.UNSPECIFIED, prepared, recover=True)
        # what was applied already waits for nobody
        await alone.open(2, CommitMode.UNSPECIFIED, prepared, recover=False)
        assert alone._rows.opened[0].state == b"rows7"

    asyncio.run(main())


def test_close_closes_both_writers():
    async def main():
        log, _, writer = both()
        await writer.open(1, CommitMode.UNSPECIFIED, None, recover=False)
        writer.stage(7, [PutSlot(0, 0, 1)])
        await writer.prepare(7, [], b"")
        await writer.close(1)
        assert log[2:] == [
            ("rows", "close"),
            ("letters", "close"),
        ]

    asyncio.run(main())


@pytest.mark.parametrize("rows", [SINK, TWO_PHASE])
def test_where_rows_may_still_fail_they_come_first_and_their_dead_letters_join(rows):
    async def main():
        log, _, writer = both(rows)
        writer._rows.reports_failed_rows = True
        await writer.open(1, CommitMode.UNSPECIFIED, None, recover=False)
        writer.stage(7, [PutSlot(0, 0, 1)])
        why = Diagnostic("row.bad", "bad", ErrorClass.DATA)
        writer._rows.error = FailedRowsError([FailedRow(0, 3, why)])
        with pytest.raises(FailedRowsError):
            await writer.prepare(7, [], b"token")
        writer._rows.error = None
        assert writer.count_staged(7) == 1
        await transaction(writer, 7)
        prepared = [entry for entry in log if entry[1] == "prepare"]
        assert prepared == [("rows", "prepare", 7, 0)] * 2 + [("letters", "prepare", 7, 2)]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("own", "path"),
    [
        ("", "errors.deadletterqueue.topic.name"),
        ("connection.url", "errors.deadletterqueue.sink.connection.url"),
    ],
)
def test_an_error_of_the_place_for_dead_letters_says_whose_it_is(own, path):
    """It is no reason to give up rows that the sink would take."""

    async def main():
        _, place, writer = both()
        await writer.open(1, CommitMode.UNSPECIFIED, None, recover=False)
        place.error = RetriableError("sink.away", "gone", config_path=own)
        with pytest.raises(RetriableError) as caught:
            await transaction(writer, 7)
        assert caught.value.diagnostic.code == "sink.away"
        assert caught.value.diagnostic.config_path == path

    asyncio.run(main())
