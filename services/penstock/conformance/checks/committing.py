"""Transactions of a sink: what counts, when it is visible, and what is thrown away."""

from __future__ import annotations

from penstock.api.connector.v1 import plugin_service_pb2 as plugin_pb
from penstock.api.connector.v1 import sink_service_pb2 as pb
from penstock.conformance.bench import Bench
from penstock.conformance.calls import RefusedError
from penstock.conformance.cases import Case
from penstock.conformance.checks.register import case
from penstock.conformance.moving import trip
from penstock.conformance.verdict import NotApplicableError, RuleBrokenError, require
from penstock.conformance.writing import Put, token_of

_MOST_STATE = 64 << 10


@case("commit.visible")
async def visible(bench: Bench, case: Case) -> None:
    """What was committed is visible, all of it, once, transaction after transaction."""
    del case
    plugin = await bench.plugin()
    async with trip(bench) as way, way.life(plugin) as task:
        rows = []
        for txn_id in (1, 2, 3):
            new = way.next_rows(2)
            await way.stage(task, txn_id, new)
            done = await task.commit(txn_id)
            require(done.txn_id == txn_id, f"commit {txn_id} is answered by {done.txn_id}")
            require(done.rows == len(new), f"{len(new)} rows were put, {done.rows} are told")
            rows += new
            await way.expect(plugin, rows, f"after transaction {txn_id}")


@case("commit.values")
async def values(bench: Bench, case: Case) -> None:
    """Values of every type arrive as they are, to the last digit."""
    del case
    plugin = await bench.plugin()
    async with trip(bench) as way, way.life(plugin) as task:
        if not way.rows.made:
            raise NotApplicableError("its rows come from a file")
        rows = way.rows.hard()
        await way.stage(task, 1, rows)
        await task.commit(1)
        await way.expect(plugin, rows, "after rows with hard values")


@case("commit.order")
async def order(bench: Bench, case: Case) -> None:
    """Rows of a transaction are in the order of their slots, whichever came first."""
    del case
    if not bench.declared.ordered:
        raise NotApplicableError("`ordered` does not say that it keeps an order")
    plugin = await bench.plugin()
    async with trip(bench) as way, way.life(plugin) as task:
        first, second = way.next_rows(2), way.next_rows(2)
        await way.put(task, second, Put(1, slot=1))
        await way.put(task, first, Put(1, slot=0))
        await task.prepare(1, [(0, 0, 2), (1, 0, 2)])
        await task.commit(1)
        await way.expect(plugin, [*first, *second], "after slot 1 came before slot 0")


@case("prepare.invisible")
async def invisible(bench: Bench, case: Case) -> None:
    """Nothing is visible before Commit."""
    del case
    plugin = await bench.plugin()
    async with trip(bench) as way, way.life(plugin) as task:
        rows = way.next_rows(2)
        await way.put(task, rows, Put(1))
        await way.expect(plugin, [], "after Put")
        await task.prepare(1, [(0, 0, len(rows))])
        await way.expect(plugin, [], "after Prepare")
        await task.commit(1)
        await way.expect(plugin, rows, "after Commit")


@case("prepare.state")
async def state(bench: Bench, case: Case) -> None:
    """Prepared names the transaction, its epoch and token, with state of 64 KiB at most."""
    del case
    plugin = await bench.plugin()
    async with trip(bench) as way, way.life(plugin, epoch=3) as task:
        txn = (await way.stage(task, 1, way.next_rows(2))).txn
    require(txn.txn_id == 1, f"transaction 1 is answered as {txn.txn_id}")
    require(txn.epoch == 3, f"epoch 3 is answered as {txn.epoch}")
    require(txn.token == token_of(1), f"token {token_of(1)!r} is answered as {txn.token!r}")
    require(len(txn.state) <= _MOST_STATE, f"its state has {len(txn.state)} bytes")


@case("prepare.attempts")
async def attempts(bench: Bench, case: Case) -> None:
    """A slot that was put again under a new attempt counts once: the attempt that is named."""
    del case
    plugin = await bench.plugin()
    async with trip(bench) as way, way.life(plugin) as task:
        rows, other = way.next_rows(2), way.next_rows(1)
        await way.put(task, [*rows, *other], Put(1, attempt=0))
        await way.put(task, rows, Put(1, attempt=1))
        await task.prepare(1, [(0, 1, len(rows))])
        await task.commit(1)
        await way.expect(plugin, rows, "after attempt 1 of a slot was named")


@case("prepare.counts")
async def counts(bench: Bench, case: Case) -> None:
    """A slot that has other rows than the host counted is refused, and nothing of it shows."""
    del case
    plugin = await bench.plugin()
    async with trip(bench) as way:
        async with way.life(plugin) as task:
            await way.put(task, way.next_rows(2), Put(1))
            try:
                await task.prepare(1, [(0, 0, 3)])
            except RefusedError as error:
                require(not error.lost, "the process ended over a wrong count")
            else:
                raise RuleBrokenError("3 rows were named, 2 were put, and it prepared")
        await way.expect(plugin, [], "after a wrong count")


@case("prepare.missing")
async def missing(bench: Bench, case: Case) -> None:
    """A slot that was never put is refused, not taken for an empty one."""
    del case
    plugin = await bench.plugin()
    async with trip(bench) as way, way.life(plugin) as task:
        await way.put(task, way.next_rows(2), Put(1))
        try:
            await task.prepare(1, [(0, 0, 2), (1, 0, 2)])
        except RefusedError as error:
            require(not error.lost, "the process ended over a missing slot")
            return
    raise RuleBrokenError("slot 1 was named and never put, and it prepared")


@case("abort.put")
async def abort_put(bench: Bench, case: Case) -> None:
    """An abort of what was put leaves nothing, and the next transaction works."""
    del case
    plugin = await bench.plugin()
    async with trip(bench) as way, way.life(plugin) as task:
        await way.put(task, way.next_rows(2), Put(1))
        await task.send(abort=pb.WriteAbort(txn_id=1))
        rows = await way.transact(task, 2)
        await way.expect(plugin, rows, "after an abort of what was put")


@case("abort.prepared")
async def abort_prepared(bench: Bench, case: Case) -> None:
    """An abort of what was prepared leaves nothing, and the next transaction works."""
    del case
    plugin = await bench.plugin()
    async with trip(bench) as way, way.life(plugin) as task:
        await way.stage(task, 1, way.next_rows(2))
        await task.send(abort=pb.WriteAbort(txn_id=1))
        rows = await way.transact(task, 2)
        await way.expect(plugin, rows, "after an abort of what was prepared")


@case("replay.harmless")
async def replay(bench: Bench, case: Case) -> None:
    """An idempotent sink takes keyed rows again, and they are there once."""
    del case
    plugin = await bench.plugin()
    mode = plugin_pb.COMMIT_MODE_IDEMPOTENT
    async with trip(bench) as way:
        rows = way.next_rows(3)
        for epoch in (1, 2):
            async with way.life(plugin, epoch=epoch, mode=mode) as task:
                await way.stage(task, epoch, rows)
                await task.commit(epoch)
        await way.expect(plugin, rows, "after the same rows came twice")
