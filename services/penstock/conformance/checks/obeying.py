"""What a source does when the host says something, or is gone."""

from __future__ import annotations

from contextlib import AsyncExitStack

from penstock.api.connector.v1 import source_service_pb2 as pb
from penstock.conformance.bench import SMALL, Bench
from penstock.conformance.calls import RefusedError
from penstock.conformance.cases import Case
from penstock.conformance.checks.register import case
from penstock.conformance.held import at_rest, lets_go
from penstock.conformance.reading import Reading, Taken, reading
from penstock.conformance.rows import difference
from penstock.conformance.verdict import NotApplicableError, RuleBrokenError, require
from penstock.conformance.world import World

UNKNOWN_FRAME = b"\xc2\x3e\x03abc"
"""Field 1000, which no version has."""
_QUIET = 0.5
_ROUNDS = 8
_FREE = 4
"""Threads and open files that may come and stay, of pools that grow to their size."""


@case("frames.unknown_read")
async def unknown_read(bench: Bench, case: Case) -> None:
    """Frames of an unknown kind are ignored: the task goes on."""
    del case
    plugin = await bench.plugin()
    async with bench.world() as world, reading(plugin, world, bench.order(**SMALL)) as task:
        await task.send_raw(UNKNOWN_FRAME)
        await task.send()
        trace = await bench.read_all(task)
        await _compare(bench, world, trace.rows)


@case("fetch.again")
async def again(bench: Bench, case: Case) -> None:
    """A batch can be fetched again until it is released; one that was not announced is refused."""
    del case
    plugin = await bench.plugin()
    order = bench.order(credit=1, max_batch_rows=2)
    async with bench.world() as world, reading(plugin, world, order) as task:
        ready = (await task.until("ready")).ready
        first, second = [await task.fetch(ready.seq) for _ in range(2)]
        require(
            [chunk.data for chunk in first] == [chunk.data for chunk in second],
            "two Fetches of one batch give other bytes",
        )
        try:
            await task.fetch(ready.seq + 1000)
        except RefusedError:
            return
        raise RuleBrokenError("a batch that was never announced was given out")


@case("drain.answered")
async def drained(bench: Bench, case: Case) -> None:
    """Drain is answered in its grace, in the middle too, and the next life goes on from there."""
    plugin = await bench.plugin()
    async with bench.own_world() as world:
        order = bench.order(credit=1, max_batch_rows=2)
        async with reading(plugin, world, order) as task:
            await task.take((await task.until("ready")).ready)
            await task.drain(case.seconds)
            place = task.trace.places[-1] if task.trace.places else None
            if place:
                await task.commit(place.id)
            late = [f for f in await _late(task) if not f.HasField("progress")]
            require(not late, f"{len(late)} frames came after Drained")
        before = task.trace.rows[: place.rows] if place else []
        more = {"offsets": place.offsets} if place else {}
        async with reading(plugin, world, bench.order(**more, **SMALL)) as task:
            trace = await bench.read_all(task, len(before))
        await _compare(bench, world, [*before, *trace.rows])


@case("pause.obeyed")
async def pause(bench: Bench, case: Case) -> None:
    """While all partitions are paused nothing new is announced; afterwards every row comes."""
    del case
    plugin = await bench.plugin()
    async with bench.world() as world, reading(plugin, world, bench.order(credit=1)) as task:
        first = (await task.until("ready")).ready
        if len(await task.take(first)) == len((await bench.trial()).trace.rows):
            raise NotApplicableError("all rows came in one batch")
        ids = task.partitions
        await task.send(pause=pb.ReadPause(all_partitions=True, pause=ids))
        await task.quiet(0.1)  # the order has to come there first
        await task.release(first.seq)
        more = await task.quiet(_QUIET)  # one may have been in hand
        for ready in more:
            await task.take(ready)
            await task.release(ready.seq)
        extra = await task.quiet(_QUIET) if more else []
        require(not extra, "batches were announced while it was paused")
        await task.send(pause=pb.ReadPause(all_partitions=True, resume=ids))
        await bench.read_all(task)
        await _compare(bench, world, task.trace.rows)


@case("heartbeat.read")
async def heartbeat(bench: Bench, case: Case) -> None:
    """A Progress comes at least as often as it said, also when there is nothing to tell."""
    plugin = await bench.plugin()
    async with bench.own_world() as world:
        order = bench.order(credit=1, max_batch_rows=1)
        async with reading(plugin, world, order) as task:
            promised = task.opened.heartbeat_every.ToTimedelta().total_seconds()
            require(promised > 0, "ReadOpened.heartbeat_every is not set")
            most = case.seconds
            require(promised <= most, f"a heartbeat every {promised:g} s, {most:g} is the most")
            await task.until("ready")
            await task.until("progress", promised)
            require(not task.trace.drained, "it ended without a Release")


@case("host.lost_read")
async def lost_read(bench: Bench, case: Case) -> None:
    """A host that is lost leaves nothing behind in the process: no thread, no open file; and the
    next one gets every row.
    """
    async with bench.own_world() as world, bench.fresh() as plugin:
        for lost in range(_ROUNDS):
            async with reading(plugin, world, bench.order(credit=1, **SMALL)) as task:
                await task.until("ready")
            if not lost:
                held = await at_rest(plugin.pid, case.seconds)
        async with reading(plugin, world, bench.order(**SMALL)) as task:
            trace = await bench.read_all(task)
            await _compare(bench, world, trace.rows)
        more = await lets_go(plugin.pid, held + _FREE, case.seconds)
    require(not more, f"{more + _FREE} more threads and open files after {_ROUNDS} lost hosts")


@case("end.stdin_reading")
async def stdin_reading(bench: Bench, case: Case) -> None:
    """The end of standard input ends the process also while a task is open."""
    async with bench.own_world() as world, bench.fresh() as plugin, AsyncExitStack() as stack:
        task = await stack.enter_async_context(
            reading(plugin, world, bench.order(credit=1, **SMALL))
        )
        await task.until("ready")
        plugin.leave()
        require(
            await plugin.ends(case.seconds),
            f"it ran on for {case.seconds:g} s after the end of its standard input",
        )


async def _late(task: Reading) -> list[pb.ReadResponse]:
    before = len(task.trace.frames)
    try:
        await task.quiet(0.2)
    except RefusedError:
        return []
    return task.trace.frames[before:]


async def _compare(bench: Bench, world: World, rows: list[Taken]) -> None:
    if how := difference((await bench.trial()).texts, bench.texts(rows, world)):
        raise RuleBrokenError(how)
