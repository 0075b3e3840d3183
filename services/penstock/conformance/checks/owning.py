"""Who owns a task of a source: epochs, two opens of one task, two tasks in one process."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from penstock.conformance.bench import SMALL, Bench
from penstock.conformance.calls import RefusedError
from penstock.conformance.cases import Case
from penstock.conformance.checks.register import case
from penstock.conformance.reading import Reading, reading
from penstock.conformance.rows import difference
from penstock.conformance.verdict import RuleBrokenError, require


@case("epoch.fetch")
async def fetch(bench: Bench, case: Case) -> None:
    """A Fetch with an older epoch than the task's is refused as fenced."""
    del case
    plugin = await bench.plugin()
    order = bench.order(epoch=2)
    async with bench.world() as world, reading(plugin, world, order) as task:
        ready = (await task.until("ready")).ready
        try:
            await task.fetch(ready.seq, epoch=1)
        except RefusedError as error:
            require(error.fenced, f"it was refused, but not as FENCED: {error}")
        else:
            raise RuleBrokenError("a Fetch of epoch 1 got rows of a task of epoch 2")


@case("epoch.open_read")
async def open_read(bench: Bench, case: Case) -> None:
    """An Open with an older epoch than the task's is refused as fenced."""
    del case
    plugin = await bench.plugin()
    order = bench.order(epoch=2)
    async with bench.world() as world, reading(plugin, world, order):
        try:
            async with reading(plugin, world, replace(order, epoch=1)):
                pass
        except RefusedError as error:
            require(error.fenced, f"it was refused, but not as FENCED: {error}")
        else:
            raise RuleBrokenError("epoch 1 was opened beside epoch 2 of one task")


@case("epoch.takeover_read")
async def takeover_read(bench: Bench, case: Case) -> None:
    """A second Open of a task ends the older stream; the newer one has every row."""
    plugin = await bench.plugin()
    order = bench.order(**SMALL)
    async with bench.world() as world, reading(plugin, world, order) as older:
        await older.until("ready")
        async with reading(plugin, world, replace(order, epoch=2)) as newer:
            trace = await bench.read_all(newer)
            await _ended(older, case.seconds)
            if how := difference((await bench.trial()).texts, bench.texts(trace.rows, world)):
                raise RuleBrokenError(how)


@case("tasks.several_read")
async def several_read(bench: Bench, case: Case) -> None:
    """Two tasks in one process read beside each other, and neither notices."""
    del case
    plugin = await bench.plugin()
    wanted = (await bench.trial()).texts

    async def one() -> str:
        """Read all of it, begun when both are there."""
        async with (
            bench.own_world() as world,
            reading(plugin, world, bench.order(**SMALL)) as task,
        ):
            await opened.wait()
            trace = await bench.read_all(task)
            return difference(wanted, bench.texts(trace.rows, world))

    opened = asyncio.Barrier(2)
    for how in await asyncio.gather(one(), one()):
        require(not how, how)


async def _ended(older: Reading, seconds: float) -> None:
    clock = asyncio.get_running_loop().time
    until = clock() + seconds
    try:
        while await older.next(max(0.01, until - clock())) is not None:
            pass
    except TimeoutError:
        raise RuleBrokenError(f"the older stream went on for {seconds:g} s") from None
    except RefusedError as error:
        require(error.fenced, f"the older stream ended, but not as FENCED: {error}")
