"""The order of a commit, and that a deliberately broken order is detected."""

import asyncio
from dataclasses import replace

import pytest

from penstock.model import faults
from penstock.model.connector import CommitMode
from penstock.model.errors import DataError, Diagnostic, FencedError
from penstock.model.stream import BatchReady, FailedRow, FailedRowsError, PreparedTxn, PutSlot
from penstock.worker.task.commit import Commits
from penstock.worker.task.micro_batches import ExecutedBatch, FinishedBatch, MicroBatch
from penstock.worker.task.source_acks import SourceAcks


class Recorder:
    """Source, sink and offset service that record their calls. The sink cannot write rows with the
    numbers `bad`, one of which it names at a time.
    """

    def __init__(self, refuse: bool = False, bad: tuple[int, ...] = ()) -> None:
        self.said: list[str] = []
        self.refuse, self.bad = refuse, bad
        self.is_tolerant = True

    async def prepare(self, txn_id, slots, token):
        left_out = {row for slot in slots for row in slot.left_out}
        if failed := [row for row in self.bad if row not in left_out]:
            self.said.append(f"cannot write {failed[0]}")
            raise FailedRowsError([FailedRow(0, failed[0], Diagnostic("test.bad", "bad"))])
        self.said.append(f"prepare {txn_id}")
        return PreparedTxn(txn_id, 1, b"state", token)

    async def reject(self, finished, error):
        if not self.is_tolerant:
            raise error
        (slot,), rows = finished.executed.slots, [row.row for row in error.rows]
        self.said.append(f"reject {rows}")
        slots = (replace(slot, left_out=(*slot.left_out, *rows)),)
        return replace(finished, executed=replace(finished.executed, slots=slots))

    async def release(self, finished):
        self.said.append(f"release {finished.batch.last_seq}")

    async def commit(self, *args):
        if len(args) == 1:
            self.said.append(f"show {args[0]}")
            return
        if self.refuse:
            raise FencedError("offset.stale_epoch", "old")
        _, prepared, applied = args
        self.said.append(f"store {prepared.txn_id if prepared else '-'} applied {applied}")

    confirms = False

    async def committed(self, checkpoint_id):
        self.said.append(f"told {checkpoint_id}")


def finished(txn: int, rows: int = 1) -> FinishedBatch:
    batches = (BatchReady(txn, 1, "p", rows, 1),) if rows else ()
    batch = MicroBatch(batches, {"p": {"position": txn}}, txn, txn, 0.0)
    slots = (PutSlot(0, 1, rows),)
    return FinishedBatch(txn, batch, ExecutedBatch(slots, rows, rows) if rows else None)


async def commit_all(world: Recorder, mode: CommitMode, *items: FinishedBatch) -> None:
    commits = Commits(SourceAcks(world), world, world, mode, 0, lambda *_: None)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(commits.run(world))
        for item in items:
            await commits.submit(item)
        await commits.settle()
        running.cancel()


def said(mode: CommitMode, *items: FinishedBatch) -> list[str]:
    """Return the order of a commit, without what the source is told to forget."""
    world = Recorder()
    asyncio.run(commit_all(world, mode, *items))
    return [one for one in world.said if not one.startswith("release")]


def in_order(words: list[str]) -> bool:
    """Return whether rows are durable before offsets, and offsets before the acknowledgement
    (invariants 1 and 2).
    """
    stored = next((i for i, w in enumerate(words) if w.startswith("store")), None)
    told = next((i for i, w in enumerate(words) if w.startswith("told")), None)
    if stored is None or told is None:
        return False
    return words.index("prepare 1") < stored < told


@pytest.fixture
def broken():
    """Arms a fault point for one test."""

    def arm(point: str) -> None:
        faults.load({faults.VARIABLE: f"{point}=break"})

    yield arm
    faults.load({})


def test_prepared_state_is_stored_before_it_is_committed_and_the_source_acknowledged():
    words = said(CommitMode.TWO_PHASE, finished(1), finished(2))
    assert words == [
        "prepare 1", "store 1 applied 0", "show 1", "told 1",
        "prepare 2", "store 2 applied 1", "show 2", "told 2",
    ]  # fmt: skip
    assert in_order(words)


def test_a_sink_that_stores_offsets_is_durable_before_the_offset_service():
    assert said(CommitMode.SINK, finished(1)) == [
        "prepare 1", "show 1", "store 1 applied 1", "told 1",
    ]  # fmt: skip


@pytest.mark.parametrize("mode", [CommitMode.HOST, CommitMode.IDEMPOTENT])
def test_rows_without_stored_prepared_state_are_visible_before_their_offset(mode):
    assert said(mode, finished(1)) == ["prepare 1", "show 1", "store 1 applied 1", "told 1"]


def test_a_checkpoint_without_rows_stores_the_offset_and_does_not_call_the_sink():
    assert said(CommitMode.TWO_PHASE, finished(1, rows=0)) == ["store - applied 0", "told 1"]


@pytest.mark.parametrize("point", ["worker.commit_order", "worker.ack_order", "worker.drop_ack"])
def test_twin_a_broken_order_is_detected(broken, point):
    """The check above is able to fail: each broken invariant turns it red."""
    broken(point)
    assert not in_order(said(CommitMode.TWO_PHASE, finished(1)))


def test_a_fenced_commit_is_never_visible_nor_acknowledged():
    world = Recorder(refuse=True)
    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(commit_all(world, CommitMode.TWO_PHASE, finished(1)))
    assert caught.group_contains(FencedError)
    assert world.said == ["prepare 1", "release 1"]


@pytest.mark.parametrize("mode", [CommitMode.TWO_PHASE, CommitMode.SINK, CommitMode.HOST])
def test_rows_that_the_sink_cannot_write_are_rejected_before_their_batches_are_released(mode):
    world = Recorder(bad=(3, 7))
    asyncio.run(commit_all(world, mode, finished(1, rows=9)))
    assert world.said[:6] == [
        "cannot write 3", "reject [3]", "cannot write 7", "reject [7]", "prepare 1", "release 1",
    ]  # fmt: skip
    assert world.said.count("prepare 1") == 1


def test_a_row_that_is_not_tolerated_ends_the_run_before_any_offset_is_stored():
    world = Recorder(bad=(3,))
    world.is_tolerant = False
    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(commit_all(world, CommitMode.SINK, finished(1, rows=9)))
    assert caught.group_contains(DataError, match="cannot write 1 row.s., the first: bad")
    assert world.said == ["cannot write 3"]
