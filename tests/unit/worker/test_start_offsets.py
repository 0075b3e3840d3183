"""Where a task starts: at the offsets of the offset service, or those of a sink that stores offsets
itself.
"""

import asyncio

import pytest

from penstock.model.connector import CommitMode, Partition, TaskPlan
from penstock.model.stream import PreparedTxn, WriteOpened
from penstock.worker.task.task_offsets import Claim, resolve_start_offsets
from penstock_values.partition_ranges import PartitionRange

KEY = {"p": 1}
ID = Partition(KEY).id


class Offsets:
    """An offset service that has one offset."""

    def __init__(self):
        self.offsets, self.prepared = {ID: {"n": 100}}, None

    async def get(self, ids):
        return dict(self.offsets)

    async def commit(self, offsets, prepared, applied_txn_id):
        self.offsets |= offsets
        self.prepared = prepared or self.prepared


class ManyOffsets:
    """An offset service with the offsets of two hosts and of another key."""

    async def get_all(self, ranges):
        ids = [Partition(key).id for key in ({"host": "b"}, {"host": "x"}, {"rack": "c"})]
        return {id_: {"n": 1} for id_ in ids}  # as an earlier version of the service does

    async def get(self, ids):
        return {}


def begins_at(opened: WriteOpened, claim: Claim, offsets: Offsets | None = None) -> int:
    plan = TaskPlan("g-0", (Partition(KEY),))
    plan = asyncio.run(resolve_start_offsets(plan, opened, claim, offsets or Offsets(), 4))
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
def test_a_sink_with_another_transaction_than_the_stored_one_decides(txn, why):
    assert begins_at(sink(txn, 50), stored(7)) == 50, why


def test_a_sink_without_a_stored_transaction_decides():
    assert begins_at(sink(1, 50), Claim(None, recover=False)) == 50


def test_altered_offsets_are_not_overridden_by_the_sink():
    assert begins_at(sink(7, 50), stored(7)) == 100


def test_a_sink_without_a_transaction_starts_at_the_stored_offsets():
    assert begins_at(WriteOpened(CommitMode.SINK), stored(7)) == 100


def test_offsets_that_only_the_sink_has_are_stored_before_its_next_transaction():
    """Two crashes in a row: the first before the offsets were stored, the second after a
    transaction of another partition. The sink's token has only the partitions of its last
    transaction.
    """
    offsets = Offsets()
    assert begins_at(sink(8, 150), stored(7), offsets) == 150
    assert offsets.prepared == PreparedTxn(8, 4)
    of_another = WriteOpened(CommitMode.SINK, PreparedTxn(9, 4, b"", b'{"{}":{"n":1}}'))
    assert begins_at(of_another, Claim(offsets.prepared, recover=False), offsets) == 150
    assert "{}" not in offsets.offsets, "the offset of a partition that this task does not have"


def test_an_older_transaction_of_a_sink_does_not_replace_the_number_of_a_newer_one():
    offsets = Offsets()
    assert begins_at(sink(6, 50), stored(7), offsets) == 50
    assert offsets.prepared is None
    assert offsets.offsets == {ID: {"n": 50}}


def test_a_task_with_a_range_is_given_back_what_is_in_it():
    """The task does not get the partitions of another task's range, nor do they get lost."""
    found = {}
    for start, end in (("", "m"), ("m", "")):
        planned = Partition({"hosts": start}, range=PartitionRange("host", start, end))
        opened = WriteOpened(CommitMode.IDEMPOTENT, None)
        claim = Claim(None, recover=False)
        plan = TaskPlan("g-0", (planned,))
        plan = asyncio.run(resolve_start_offsets(plan, opened, claim, ManyOffsets(), 4))
        assert plan.partitions[0] == planned
        found[start] = [(one.key, one.offset) for one in plan.partitions[1:]]
    assert found == {"": [({"host": "b"}, {"n": 1})], "m": [({"host": "x"}, {"n": 1})]}
