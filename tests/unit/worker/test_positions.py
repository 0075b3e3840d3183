"""Where a task goes on: the offset service's word, or that of a sink that keeps offsets itself."""

import asyncio

import pytest

from penstock.model.connector import CommitMode, Partition, TaskPlan
from penstock.model.stream import PreparedTxn, WriteOpened
from penstock.worker.task.run_spec import Claim, positioned

KEY = {"p": 1}
ID = Partition(KEY).id


class Offsets:
    """An offset service that has one offset."""

    async def get(self, ids):
        return {ID: {"n": 100}}


def begins_at(opened: WriteOpened, claim: Claim) -> int:
    plan = TaskPlan("g-0", (Partition(KEY),))
    plan = asyncio.run(positioned(plan, opened, claim, Offsets()))
    return plan.partitions[0].offset["n"]


def sink(txn: int, n: int) -> WriteOpened:
    token = f'{{"{ID.replace(chr(34), chr(92) + chr(34))}":{{"n":{n}}}}}'.encode()
    return WriteOpened(CommitMode.SINK, PreparedTxn(txn, 3, b"", token))


def stored(txn: int) -> Claim:
    return Claim(PreparedTxn(txn, 3), recover=False)


@pytest.mark.parametrize(
    ("txn", "why"),
    [(8, "a crash came between the sink's commit and ours"), (6, "its database was restored")],
)
def test_a_sink_with_another_transaction_than_ours_is_right(txn, why):
    assert begins_at(sink(txn, 50), stored(7)) == 50, why


def test_a_sink_that_nothing_was_stored_of_is_right():
    assert begins_at(sink(1, 50), Claim(None, recover=False)) == 50


def test_offsets_that_were_altered_since_are_not_hidden_by_the_sink():
    assert begins_at(sink(7, 50), stored(7)) == 100


def test_a_sink_without_any_transaction_goes_by_what_is_stored():
    assert begins_at(WriteOpened(CommitMode.SINK), stored(7)) == 100
