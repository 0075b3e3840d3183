"""The order of a commit, and that a deliberately broken order is detected."""

import asyncio

import pytest

from penstock.model import faults
from penstock.model.connector import CommitMode
from penstock.model.errors import FencedError
from penstock.model.stream import BatchReady, PreparedTxn
from penstock.worker.task.commit import Commits
from penstock.worker.task.micro_batches import ExecutedBatch, FinishedBatch, MicroBatch
from penstock.worker.task.source_acks import SourceAcks


class Recorder:
    """Source, sink and offset service that record their calls."""

    def __init__(self, refuse: bool = False) -> None:
        self.said: list[str] = []
        self.refuse = refuse

    async def prepare(self, txn_id, slots, token):
        self.said.append(f"prepare {txn_id}")
        return PreparedTxn(txn_id, 1, b"state", token)

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
    return FinishedBatch(txn, batch, ExecutedBatch((), rows, rows) if rows else None)


async def commit_all(world: Recorder, mode: CommitMode, *items: FinishedBatch) -> None:
    commits = Commits(SourceAcks(world), world, world, mode, 0, lambda *_: None)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(commits.run())
        for item in items:
            await commits.submit(item)
        await commits.settle()
        running.cancel()


def said(mode: CommitMode, *items: FinishedBatch) -> list[str]:
    world = Recorder()
    asyncio.run(commit_all(world, mode, *items))
    return world.said


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
    assert world.said == ["prepare 1"]
