"""A sink that was killed: what it prepared is applied once, or never, as the host stored it."""

from __future__ import annotations

from penstock.api.connector.v1 import plugin_service_pb2 as plugin_pb
from penstock.api.connector.v1 import sink_service_pb2 as pb
from penstock.conformance.bench import Bench
from penstock.conformance.calls import RefusedError
from penstock.conformance.cases import Case
from penstock.conformance.checks.register import case
from penstock.conformance.moving import Trip, trip
from penstock.conformance.process import Plugin
from penstock.conformance.rows import Row
from penstock.conformance.verdict import require
from penstock.conformance.writing import token_of

_TWO_PHASE = plugin_pb.COMMIT_MODE_TWO_PHASE
_SINK = plugin_pb.COMMIT_MODE_SINK


@case("recover.prepared")
async def prepared(bench: Bench, case: Case) -> None:
    """Killed between Prepare and Commit, what the host stored is applied once, however often it
    is applied, and the next transaction follows.
    """
    del case
    async with trip(bench) as way:
        rows, txn = await _killed(bench, way, mode=_TWO_PHASE)
        plugin = await bench.plugin()
        await _recover(way, plugin, txn, 2)
        await way.expect(plugin, rows, "after a recovery")
        more = {"epoch": 3, "mode": _TWO_PHASE, "last_prepared": txn, "recover": True}
        async with way.life(plugin, **more) as task:
            rows = [*rows, *await way.transact(task, txn.txn_id + 1)]
            await way.expect(plugin, rows, "after another one, and a transaction that followed")


@case("recover.committed")
async def committed(bench: Bench, case: Case) -> None:
    """Killed after Commit, what was applied already is applied again, and is there once."""
    del case
    async with trip(bench) as way:
        rows, txn = await _killed(bench, way, commit=True, mode=_TWO_PHASE)
        plugin = await bench.plugin()
        await way.expect(plugin, rows, "after Commit and a kill")
        await _recover(way, plugin, txn, 2)
        await way.expect(plugin, rows, "after a recovery of what was committed")


@case("recover.forgotten")
async def forgotten(bench: Bench, case: Case) -> None:
    """What was prepared and that no host stored is never applied: its rows come again, once."""
    del case
    async with trip(bench) as way:
        rows, txn = await _killed(bench, way, mode=_TWO_PHASE)
        plugin = await bench.plugin()
        async with way.life(plugin, epoch=2, mode=_TWO_PHASE) as task:
            await way.expect(plugin, [], "after a kill, before anything was stored")
            await way.stage(task, txn.txn_id, rows)
            await task.commit(txn.txn_id)
            await way.expect(plugin, rows, "after the rows came again")


@case("recover.token")
async def token(bench: Bench, case: Case) -> None:
    """A sink that is the authority says after a crash what it has: the token of the last
    transaction that is visible, of no other.
    """
    del case
    async with trip(bench) as way:
        rows, _ = await _killed(bench, way, commit=True, mode=_SINK)
        plugin = await bench.plugin()
        await way.expect(plugin, rows, "after Commit and a kill")
        told = await _told(way, plugin, 2)
        require(told == token_of(1), f"after transaction 1 it tells the token {told!r}")
        _, txn = await _killed(bench, way, mode=_SINK, epoch=3, txn_id=2)
        told = await _told(way, plugin, 4)
        require(told == token_of(1), f"transaction {txn.txn_id} was never committed; {told!r}")
        await way.expect(plugin, rows, "after Prepare and a kill")


@case("epoch.zombie")
async def zombie(bench: Bench, case: Case) -> None:
    """A process of an older epoch that wakes up and commits changes nothing that a newer owner
    elsewhere wrote: every row is there once.
    """
    del case
    new = await bench.plugin()
    async with trip(bench) as way, bench.fresh() as old:
        modes = bench.spec.sink.commit_modes
        mode = _TWO_PHASE if _TWO_PHASE in modes else _SINK
        rows = way.next_rows(3)
        async with way.life(old, mode=mode) as late:
            await way.stage(late, 1, rows)
            async with way.life(new, epoch=2, mode=mode) as owner:
                await way.stage(owner, 1, rows)
                await owner.commit(1)
                try:
                    await late.commit(1)
                except RefusedError as error:
                    require(not error.lost, "the older process ended instead of refusing")
                await way.expect(new, rows, "after an older owner committed late")


async def _killed(
    bench: Bench, way: Trip, *, mode: int, commit: bool = False, epoch: int = 1, txn_id: int = 1
) -> tuple[list[Row], pb.PreparedTxn]:
    """Prepare rows, commit them or not, and kill the process; return rows and prepared state."""
    async with bench.fresh() as plugin, way.life(plugin, mode=mode, epoch=epoch) as task:
        rows = way.next_rows(3)
        txn = (await way.stage(task, txn_id, rows)).txn
        if commit:
            await task.commit(txn_id)
        await plugin.kill()
    return rows, txn


async def _recover(way: Trip, plugin: Plugin, txn: pb.PreparedTxn, epoch: int) -> None:
    more = {"epoch": epoch, "mode": _TWO_PHASE, "last_prepared": txn, "recover": True}
    async with way.life(plugin, **more):
        pass


async def _told(way: Trip, plugin: Plugin, epoch: int) -> bytes:
    async with way.life(plugin, epoch=epoch, mode=_SINK) as task:
        return task.opened.committed.token
