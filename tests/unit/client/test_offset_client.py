"""The offset service over gRPC, end to end."""

from __future__ import annotations

import asyncio
from datetime import UTC, date, datetime
from decimal import Decimal
from types import SimpleNamespace

import grpc
import grpc.aio
import pytest
from grpc.aio import Metadata

from penstock.api.offset.v1 import offset_service_pb2 as pb
from penstock.client import OffsetClient
from penstock.client.offset import MAX_PARTITIONS_PER_READ
from penstock.model.connector import Connector, TargetState
from penstock.model.errors import ConfigError, FencedError, RetriableError
from penstock.model.stream import PreparedTxn
from penstock.offset.admin import MAX_GET_PARTITIONS
from penstock.store.sqlite import SqliteStore
from penstock.worker.task.task_offsets import StoredOffsets
from penstock_values.identity import partition_id, partition_key
from penstock_values.partition_ranges import PartitionRange

P = partition_id({"file": "/data/a.csv"})
Q = partition_id({"file": "/data/b.csv"})

EXOTIC = {
    "lsn": 2**63 - 1,
    "ratio": 0.1,
    "whole": 1.0,
    "yes": True,
    "none": None,
    "raw": b"\x00\xff",
    "price": Decimal("1.20"),
    "at": datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
    "day": date(1, 1, 1),
    "nested": {"list": [1, "two", {"three": 3}], "$bytes": "no tag of ours"},
}


async def claimed(mesh, epoch=0):
    made = await mesh.config.create(Connector("orders", {}))
    epoch = epoch or made.revision
    task = f"{made.generation}-0"
    await mesh.offset.claim(made.generation, task, epoch)
    return made.generation, task, epoch


def test_offsets_of_every_type_come_back(mesh):
    async def test(mesh):
        generation, task, epoch = await claimed(mesh)
        await mesh.offset.commit(generation, task, epoch, {P: EXOTIC, Q: {}})
        found = await mesh.offset.get(generation, [P, Q, partition_id({"file": "none"})])
        assert found == {P: EXOTIC, Q: {}}
        assert type(found[P]["whole"]) is float

    mesh(test)


def test_a_claim_ends_the_one_before_it(mesh):
    async def test(mesh):
        generation, task, epoch = await claimed(mesh)
        first = await mesh.offset.claim(generation, task, epoch)
        second = await mesh.offset.claim(generation, task, epoch)
        with pytest.raises(RetriableError, match=r"offset\.claimed_again"):
            await mesh.offset.commit(generation, task, epoch, {P: {"n": 1}}, claim=first.number)
        await mesh.offset.commit(generation, task, epoch, {P: {"n": 2}}, claim=second.number)
        assert await mesh.offset.get(generation, [P]) == {P: {"n": 2}}

    mesh(test)


def test_a_task_that_begins_again_ends_its_earlier_life(mesh):
    """As a worker has it: the same task and epoch, after an error or a lost membership."""

    async def test(mesh):
        generation, task, epoch = await claimed(mesh)
        earlier, later = (StoredOffsets(mesh.offset, generation, task, epoch) for _ in range(2))
        await earlier.claim()
        await earlier.commit({P: {"n": 1}}, None, 0)
        await later.claim()
        with pytest.raises(RetriableError, match=r"offset\.claimed_again"):
            await earlier.commit({P: {"n": 2}}, None, 0)
        await later.commit({P: {"n": 3}}, None, 0)
        assert await later.get([P]) == {P: {"n": 3}}

    mesh(test)


def test_a_claim_gives_back_what_was_prepared(mesh):
    async def test(mesh):
        generation, task, epoch = await claimed(mesh)
        txn = PreparedTxn(1, epoch, b"\x00state", b"token")
        revision = await mesh.offset.commit(generation, task, epoch, {P: {"pos": 1}}, txn)
        assert revision == await mesh.offset.commit(generation, task, epoch, {P: {"pos": 1}}, txn)
        claim = await mesh.offset.claim(generation, task, epoch + 1)
        assert claim.last_prepared == txn
        assert claim.recover
        await mesh.offset.commit(generation, task, epoch + 1, {}, None, 1)
        assert not (await mesh.offset.claim(generation, task, epoch + 1)).recover

    mesh(test)


def test_a_fenced_owner_is_told_so(mesh):
    async def test(mesh):
        generation, task, epoch = await claimed(mesh)
        await mesh.offset.claim(generation, task, epoch + 1)
        with pytest.raises(FencedError, match=r"offset\.stale_epoch"):
            await mesh.offset.commit(generation, task, epoch, {P: {"pos": 1}})

    mesh(test)


def test_a_commit_that_is_no_message_any_more_is_refused_for_good(mesh):
    """gRPC's refusal would be retried: the same rows would be read and refused for ever."""

    async def test(mesh):
        generation, task, epoch = await claimed(mesh)
        many = {partition_id({"n": n}): {"$opaque": b"x" * 60_000} for n in range(300)}
        with pytest.raises(
            ConfigError, match=r"offset\.commit_too_large.*300 partitions"
        ) as caught:
            await mesh.offset.commit(generation, task, epoch, many)
        assert "tasks.max" in caught.value.diagnostic.fix
        fewer = dict(list(many.items())[:250])
        await mesh.offset.commit(generation, task, epoch, fewer)

    mesh(test)


def test_offsets_can_be_altered_when_stopped_and_then_the_next_epoch_goes_on(mesh):
    async def test(mesh):
        generation, task, epoch = await claimed(mesh)
        await mesh.offset.commit(generation, task, epoch, {P: {"pos": 1}, Q: {"pos": 1}})
        with pytest.raises(ConfigError, match=r"offset\.not_stopped"):
            await mesh.offset.alter("orders", generation, {P: {"pos": 0}})
        await mesh.config.set_target_state("orders", TargetState.STOPPED)
        await mesh.offset.alter("orders", generation, {P: {"pos": 0}, Q: None})
        assert await mesh.offset.get(generation, [P, Q]) == {P: {"pos": 0}}
        with pytest.raises(FencedError):
            await mesh.offset.commit(generation, task, epoch, {P: {"pos": 2}})
        later = (await mesh.config.set_target_state("orders", TargetState.RUNNING)).revision
        await mesh.offset.claim(generation, task, later)
        await mesh.offset.commit(generation, task, later, {P: {"pos": 2}})
        await mesh.config.set_target_state("orders", TargetState.STOPPED)
        await mesh.offset.reset("orders", generation)
        assert [o async for o in mesh.offset.list(generation)] == []

    mesh(test)


def test_offsets_outlive_their_connector(mesh):
    async def test(mesh):
        generation, task, epoch = await claimed(mesh)
        await mesh.offset.commit(generation, task, epoch, {P: {"pos": 1}})
        await mesh.config.delete("orders")
        assert await mesh.offset.get(generation, [P]) == {P: {"pos": 1}}

    mesh(test)


def test_a_list_streams_pages_of_bounded_bytes(mesh):
    async def test(mesh):
        generation, task, epoch = await claimed(mesh)
        offsets = {
            partition_id({"n": f"{i:04d}"}): {"pos": i, "pad": "x" * 50_000} for i in range(200)
        }
        await mesh.offset.commit(generation, task, epoch, offsets)
        listed = [pair async for pair in mesh.offset.list(generation)]
        assert dict(listed) == offsets
        assert [id_ for id_, _ in listed] == sorted(offsets)
        ranges = [PartitionRange("n", end="01"), PartitionRange("n", "02", "03")]
        of_ranges = [pair async for pair in mesh.offset.list(generation, ranges=ranges)]
        keys = [partition_key(id_)["n"] for id_, _ in listed]
        wanted = [
            pair for pair, n in zip(listed, keys, strict=True) if n < "01" or "02" <= n < "03"
        ]
        assert of_ranges == wanted
        assert 0 < len(wanted) < len(listed)
        some = [id_ async for id_, _ in mesh.offset.list(generation, '{"n":"01')]
        assert len(some) == 100

    mesh(test)


def test_more_partitions_are_got_than_one_call_may_ask_for(mesh):
    """A task may have any number of them, and begins with their offsets."""

    async def test(mesh):
        assert MAX_PARTITIONS_PER_READ == MAX_GET_PARTITIONS
        generation, task, epoch = await claimed(mesh)
        ids = [partition_id({"n": n}) for n in range(2 * MAX_PARTITIONS_PER_READ + 1)]
        written = {id_: {"pos": 1} for id_ in (ids[0], ids[MAX_PARTITIONS_PER_READ], ids[-1])}
        await mesh.offset.commit(generation, task, epoch, written)
        assert await mesh.offset.get(generation, ids) == written
        assert await mesh.offset.get(generation, []) == {}

    mesh(test)


def test_offsets_that_do_not_fit_into_one_message_are_got_in_several(mesh):
    async def test(mesh):
        generation, task, epoch = await claimed(mesh)
        ids = [partition_id({"n": n}) for n in range(600)]
        written = {id_: {"pad": "x" * 60_000} for id_ in ids}
        for begin in range(0, len(ids), 200):
            part = {id_: written[id_] for id_ in ids[begin : begin + 200]}
            await mesh.offset.commit(generation, task, epoch, part)
        assert await mesh.offset.get(generation, ids) == written

    mesh(test)


def test_what_no_halving_helps_is_told():
    """Invariant 12: a service that is exhausted for another reason is not asked for ever."""
    asked = []

    async def main():
        async with OffsetClient("unix:/nowhere") as client:

            async def exhausted(request, *, timeout):  # noqa: ASYNC109 - as a stub's method has it
                asked.append(len(request.partition_ids))
                status = grpc.StatusCode.RESOURCE_EXHAUSTED
                raise grpc.aio.AioRpcError(status, Metadata(), Metadata(), "text")

            client._stub = SimpleNamespace(GetOffsets=exhausted)
            with pytest.raises(RetriableError, match=r"rpc\.exhausted"):
                await client.get("g", ["a"] * 9)

    asyncio.run(main())
    assert asked == [9, 4, 2, 1]


def test_bad_requests_are_refused_politely(mesh):
    async def test(mesh):
        generation, task, epoch = await claimed(mesh)
        for call in (
            mesh.offset.claim("a/b", task, epoch),
            mesh.offset.claim(generation, "", epoch),
            mesh.offset.claim(generation, task, 0),
            mesh.offset.get("../x", [P]),
            mesh.offset.commit(generation, task, epoch, {"": {"pos": 1}}),
            mesh.offset.commit(generation, task, epoch, {P: None}),
        ):
            with pytest.raises(ConfigError, match=r"offset\.invalid"):
                await call

    mesh(test)


def test_what_was_committed_is_in_the_file(mesh):
    async def test(mesh):
        generation, task, epoch = await claimed(mesh)
        await mesh.offset.commit(generation, task, epoch, {P: {"pos": 1}})
        await mesh.store.close()
        store = await SqliteStore.open(mesh.folder / "state.db")
        assert len((await store.range(f"offset/{generation}/")).entries) == 1
        await store.close()

    mesh(test)


def test_a_partition_that_is_named_twice_is_refused_and_nothing_is_written(mesh):
    async def test(mesh):
        generation, _, _ = await claimed(mesh)
        await mesh.config.set_target_state("orders", TargetState.STOPPED)
        request = pb.AlterOffsetsRequest(connector="orders", generation=generation)
        for _ in range(2):
            request.offsets.add(partition_id=P).offset.SetInParent()
        stub = mesh.offset._stub
        with pytest.raises(ConfigError, match=r"offset\.partition_twice"):
            await mesh.offset._call("offset.alter", stub.AlterOffsets, request)
        assert [pair async for pair in mesh.offset.list(generation)] == []

    mesh(test)


def test_a_history_is_told_and_gone_back_in(mesh):
    async def test(mesh):
        generation, task, epoch = await claimed(mesh)
        await mesh.offset.commit(generation, task, epoch, {P: {"pos": 1}})
        (first,) = await mesh.offset.list_history(generation, P)
        assert (first.offset, first.epoch) == ({"pos": 1}, epoch)
        while (datetime.now(UTC) - first.written_at).total_seconds() < 0.002:
            pass  # a version is as old as its millisecond
        await mesh.offset.commit(generation, task, epoch, {P: {"pos": 2}, Q: {"pos": 2}})
        assert len(await mesh.offset.list_history(generation, P)) == 2
        to = first.written_at
        steps = mesh.offset.rewind("orders", generation, to, dry_run=True)
        (changed, gone) = [change async for step in steps for change in step.changes]
        assert (changed.before, changed.after) == ({"pos": 2}, {"pos": 1})
        assert (gone.partition_id, gone.after) == (Q, None)
        await mesh.config.set_target_state("orders", TargetState.STOPPED)
        *_, last = [step async for step in mesh.offset.rewind("orders", generation, to)]
        assert last.revision
        assert await mesh.offset.get(generation, [P, Q]) == {P: {"pos": 1}}
        await mesh.offset.reset("orders", generation, forget=True)
        assert await mesh.offset.list_history(generation, P) == ()

    mesh(test)


def test_a_rewind_without_a_time_is_refused(mesh):
    async def test(mesh):
        generation, _, _ = await claimed(mesh)
        steps = mesh.offset.rewind("orders", generation, datetime(1970, 1, 1, tzinfo=UTC))
        with pytest.raises(ConfigError, match=r"offset\.time\]"):
            await anext(steps)

    mesh(test)
