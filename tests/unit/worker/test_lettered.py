"""Rows and their letters in one transaction, however each of the two places commits."""

import asyncio

import pytest

from penstock.model.connector import CommitMode
from penstock.model.dead_letter import LETTER
from penstock.model.errors import ConfigError
from penstock.model.stream import PreparedTxn, PutSlot, TxnCommitted, WriteOpened
from penstock.worker.dead_letters.publishing import Lettered

TWO_PHASE, SINK = CommitMode.TWO_PHASE, CommitMode.SINK


class Place:
    """A write end that notes what it is told."""

    def __init__(self, log, name, mode=TWO_PHASE):
        self.log, self.name, self.mode = log, name, mode
        self.opened = self.schema = None

    async def open(self, epoch, commit_mode, last_prepared, recover):
        self.opened = (last_prepared, recover)
        return WriteOpened(self.mode)

    async def apply_schema(self, schema):
        self.schema = schema

    def ticket(self, txn_id, slot, schema_id):
        return {"kind": self.name, "slot": slot}

    async def prepare(self, txn_id, slots, token, offsets):
        self.log.append((self.name, "prepare", txn_id, len(slots)))
        return PreparedTxn(txn_id, 1, f"{self.name}{txn_id}".encode(), token)

    async def commit(self, txn_id):
        self.log.append((self.name, "commit", txn_id))
        return TxnCommitted(txn_id)

    async def abort(self, txn_id):
        self.log.append((self.name, "abort", txn_id))

    async def close(self, grace):
        self.log.append((self.name, "close"))


def both(rows=TWO_PHASE, letters=TWO_PHASE):
    log = []
    place = Place(log, "letters", letters)
    return log, place, Lettered(Place(log, "rows", rows), place, "dead")


async def transaction(writer, txn_id, *, letters=1):
    if letters:
        writer.stage(txn_id, [PutSlot(0, 0, letters)])
    prepared = await writer.prepare(txn_id, [], b"token", {})
    await writer.commit(txn_id)
    return prepared


def test_what_both_prepared_is_one_state_and_letters_are_visible_first():
    async def main():
        log, place, writer = both()
        await writer.open(1, CommitMode.UNSPECIFIED, None, recover=False)
        assert (place.schema.dataset, place.schema.arrow) == ("dead", LETTER)
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


def test_a_transaction_without_letters_is_that_of_the_rows_alone():
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
def test_where_one_of_them_does_not_wait_letters_are_visible_before_rows(rows, letters):
    """A crash in between repeats letters, and loses none."""

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


def test_a_commit_that_is_repeated_shows_letters_once():
    async def main():
        log, _, writer = both()
        await writer.open(1, CommitMode.UNSPECIFIED, None, recover=False)
        await transaction(writer, 7)
        await writer.commit(7)
        assert [entry[0] for entry in log if entry[1] == "commit"] == ["letters", "rows", "rows"]

    asyncio.run(main())


def test_letters_that_wait_for_a_place_that_was_taken_away_are_not_forgotten():
    async def main():
        _, _, writer = both()
        await writer.open(1, CommitMode.UNSPECIFIED, None, recover=False)
        prepared = await transaction(writer, 7)
        alone = Lettered(Place([], "rows"), None)
        with pytest.raises(ConfigError, match=r"errors\.place_gone"):
            await alone.open(2, CommitMode.UNSPECIFIED, prepared, recover=True)
        # what was applied already waits for nobody
        await alone.open(2, CommitMode.UNSPECIFIED, prepared, recover=False)
        assert alone._rows.opened[0].state == b"rows7"

    asyncio.run(main())


def test_an_abort_and_a_close_reach_both():
    async def main():
        log, _, writer = both()
        await writer.open(1, CommitMode.UNSPECIFIED, None, recover=False)
        writer.stage(7, [PutSlot(0, 0, 1)])
        await writer.prepare(7, [], b"", {})
        await writer.abort(7)
        await writer.close(1)
        assert log[2:] == [
            ("letters", "abort", 7),
            ("rows", "abort", 7),
            ("rows", "close"),
            ("letters", "close"),
        ]

    asyncio.run(main())
