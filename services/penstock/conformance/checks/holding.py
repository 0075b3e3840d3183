"""Who owns a task of a sink, and what it does when the host says something else, or is gone."""

from __future__ import annotations

from penstock.conformance.bench import Bench
from penstock.conformance.calls import RefusedError
from penstock.conformance.cases import Case
from penstock.conformance.checks.obeying import UNKNOWN_FRAME
from penstock.conformance.checks.register import case
from penstock.conformance.held import at_rest, lets_go
from penstock.conformance.moving import trip
from penstock.conformance.verdict import RuleBrokenError, require
from penstock.conformance.writing import Put

_ROUNDS = 8
_FREE = 6


@case("epoch.put")
async def put(bench: Bench, case: Case) -> None:
    """A Put with an older epoch than the task's is refused as fenced."""
    del case
    plugin = await bench.plugin()
    async with trip(bench) as way, way.life(plugin, epoch=2) as task:
        try:
            await task.put([way.next_rows(1)], way.rows.schema, Put(1, epoch=1))
        except RefusedError as error:
            require(error.fenced, f"it was refused, but not as FENCED: {error}")
        else:
            raise RuleBrokenError("a Put of epoch 1 was taken by a task of epoch 2")


@case("epoch.open_write")
async def open_write(bench: Bench, case: Case) -> None:
    """An Open with an older epoch than the task's is refused as fenced."""
    del case
    plugin = await bench.plugin()
    async with trip(bench) as way, way.life(plugin, epoch=2):
        try:
            async with way.life(plugin, epoch=1):
                pass
        except RefusedError as error:
            require(error.fenced, f"it was refused, but not as FENCED: {error}")
        else:
            raise RuleBrokenError("epoch 1 was opened beside epoch 2 of one task")


@case("epoch.takeover_write")
async def takeover_write(bench: Bench, case: Case) -> None:
    """A second Open of a task ends the older stream; what that had put does not count."""
    plugin = await bench.plugin()
    async with trip(bench) as way, way.life(plugin) as older:
        await way.put(older, way.next_rows(1), Put(1))
        async with way.life(plugin, epoch=2) as newer:
            rows = await way.transact(newer, 1)
            try:
                require(
                    await older.ended(case.seconds),
                    f"the older stream went on for {case.seconds:g} s",
                )
            except RefusedError as error:
                require(error.fenced, f"the older stream ended, but not as FENCED: {error}")
            await way.expect(plugin, rows, "after another owner wrote")


@case("tasks.several_write")
async def several_write(bench: Bench, case: Case) -> None:
    """Two tasks in one process write beside each other, and neither notices."""
    del case
    plugin = await bench.plugin()
    async with trip(bench) as one, trip(bench) as other:
        async with one.life(plugin) as first, other.life(plugin) as second:
            rows, others = one.next_rows(2), other.next_rows(3)
            await one.put(first, rows, Put(1))
            await other.put(second, others, Put(1))
            await second.prepare(1, [(0, 0, 3)])
            await first.prepare(1, [(0, 0, 2)])
            await first.commit(1)
            await second.commit(1)
        await one.expect(plugin, rows, "of the first task")
        await other.expect(plugin, others, "of the second task")


@case("frames.unknown_write")
async def unknown_write(bench: Bench, case: Case) -> None:
    """Frames of an unknown kind are ignored, on both streams: the task goes on."""
    del case
    plugin = await bench.plugin()
    async with trip(bench) as way, way.life(plugin) as task:
        await task.send_raw(UNKNOWN_FRAME)
        await task.send()
        rows = way.next_rows(2)
        await way.put(task, rows, Put(1, unknown=UNKNOWN_FRAME))
        await task.prepare(1, [(0, 0, 2)])
        await task.commit(1)
        await way.expect(plugin, rows, "after frames of an unknown kind")


@case("close.answered")
async def close(bench: Bench, case: Case) -> None:
    """Close is answered in its grace; what was not prepared leaves no trace."""
    plugin = await bench.plugin()
    async with trip(bench) as way:
        async with way.life(plugin) as task:
            rows = await way.transact(task, 1)
            await way.put(task, way.next_rows(1), Put(2))
            await task.close(case.seconds)
        await way.expect(plugin, rows, "after Close")


@case("host.lost_write")
async def lost_write(bench: Bench, case: Case) -> None:
    """A host that is lost leaves nothing behind in the process, and nothing visible."""
    async with trip(bench) as way, bench.fresh() as plugin:
        for epoch in range(1, _ROUNDS + 1):
            async with way.life(plugin, epoch=epoch) as task:
                await task.put([way.rows.take(0, 1)], way.rows.schema, Put(1))
            if epoch == 1:
                held = await at_rest(plugin.pid, case.seconds)
        async with way.life(plugin, epoch=_ROUNDS + 1) as task:
            rows = await way.transact(task, 1)
            await way.expect(plugin, rows, "after hosts that were lost")
        more = await lets_go(plugin.pid, held + _FREE, case.seconds)
    require(not more, f"{more + _FREE} more threads and open files after {_ROUNDS} lost hosts")


@case("end.stdin_writing")
async def stdin_writing(bench: Bench, case: Case) -> None:
    """The end of standard input ends the process also while a task is open."""
    async with trip(bench) as way, bench.fresh() as plugin:
        try:
            async with way.life(plugin) as task:
                await way.put(task, way.next_rows(1), Put(1))
                plugin.leave()
                await task.ended(case.seconds)
        except RefusedError:
            pass  # the task ends with the process, in whatever way
        require(
            await plugin.ends(case.seconds),
            f"it ran on for {case.seconds:g} s after the end of its standard input",
        )
