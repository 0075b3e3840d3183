"""A source that goes on: from every checkpoint, after a crash, and with what came since."""

from __future__ import annotations

from dataclasses import replace

from penstock.conformance.bench import SMALL, Bench
from penstock.conformance.cases import Case
from penstock.conformance.checks.register import case
from penstock.conformance.process import Plugin
from penstock.conformance.reading import Offsets, Place, Reading, Taken, reading
from penstock.conformance.rows import difference
from penstock.conformance.verdict import NotApplicableError, RuleBrokenError, require
from penstock.conformance.world import World

_MOST_PLACES = 12
_MOST_WORLDS = 4
_SILENCE = 0.5
"""Seconds after which no more rows are waited for that may not be there."""


@case("resume.every_checkpoint")
async def every_checkpoint(bench: Bench, case: Case) -> None:
    """From each offset that it gave out it reads on: exactly what came after it."""
    del case
    places = (await bench.trial()).trace.places
    if bench.spec.source.needs_commit:
        for place in _spread(places, _MOST_WORLDS):
            await _leave_and_return(bench, place.id)
        return
    for place in _spread(places, _MOST_PLACES):
        await _return_to(bench, place)


@case("resume.beginning")
async def beginning(bench: Bench, case: Case) -> None:
    """A task that was opened and never committed begins from the beginning again."""
    del case
    await _leave_and_return(bench, 0)


@case("resume.zero_rows")
async def zero_rows(bench: Bench, case: Case) -> None:
    """An offset that moved without a row counts: a task goes on after it, too."""
    del case
    trace = (await bench.trial()).trace
    empty = {c.checkpoint_id for c in trace.of_kind("checkpoint") if not c.rows}
    places = [place for place in trace.places if place.id in empty]
    if not places:
        raise NotApplicableError("no checkpoint without rows came")
    for place in _spread(places, _MOST_WORLDS):
        if bench.spec.source.needs_commit:
            await _leave_and_return(bench, place.id)
        else:
            await _return_to(bench, place)


@case("resume.crash")
async def crash(bench: Bench, case: Case) -> None:
    """Killed between a batch and its Committed, the next life gives what was not committed."""
    del case
    trial = (await bench.trial()).trace
    middle = [place.id for place in trial.places if 0 < place.rows < len(trial.rows)]
    async with bench.own_world() as world:
        async with bench.fresh() as plugin, reading(plugin, world, bench.order(**SMALL)) as task:
            before: list[Taken] = []
            offsets: Offsets = {}
            if middle:
                place = await _read_to(task, middle[0])
                before, offsets = task.trace.rows[: place.rows], place.offsets
                await task.commit(place.id)
            await task.take((await task.until("ready")).ready)
            await plugin.kill()
        after = await _rest(bench, await bench.plugin(), world, offsets, len(before))
        await _compare(bench, world, [*before, *after])


@case("commit.gated")
async def gated(bench: Bench, case: Case) -> None:
    """Nothing is pruned or acknowledged at the source before Committed: a host that was told
    nothing durable gets every row again, in the next life too.
    """
    del case
    async with bench.own_world() as world:
        async with bench.fresh() as plugin, reading(plugin, world, bench.order(**SMALL)) as task:
            await _read_what_comes(task)
            await plugin.kill()
        after = await _rest(bench, await bench.plugin(), world, {}, 0)
        await _compare(bench, world, after)


@case("commit.repeated")
async def repeated(bench: Bench, case: Case) -> None:
    """Committed is cumulative: said again, or of an older checkpoint, it changes nothing."""
    del case
    plugin = await bench.plugin()
    async with bench.own_world() as world, reading(plugin, world, bench.order(**SMALL)) as task:
        place = await _read_to(task, 1)
        for id_ in (place.id, place.id, 0):
            await task.commit(id_)
        await bench.read_all(task)
        await _compare(bench, world, task.trace.rows)


@case("commit.confirmed")
async def confirmed(bench: Bench, case: Case) -> None:
    """What it waits for is confirmed in a Progress once it was committed, and it goes on."""
    trial = await bench.trial()
    if not any(place.await_commit for place in trial.trace.of_kind("checkpoint")):
        raise NotApplicableError("no checkpoint was waited for")
    plugin = await bench.plugin()
    async with bench.own_world() as world, reading(plugin, world, bench.order(**SMALL)) as task:
        require(task.opened.confirms_commits, "it waits for commits and confirms none")
        while True:
            place = (await task.until("checkpoint")).checkpoint
            if place.await_commit:
                break
            await task.release(place.last_seq)
        await task.commit(place.checkpoint_id)
        told = 0
        while told < place.checkpoint_id:
            told = (await task.until("progress", case.seconds)).progress.committed_checkpoint_id


@case("read.follows")
async def follows(bench: Bench, case: Case) -> None:
    """What is added at the source while it is read comes, too."""
    declared = bench.declared
    if not declared.more:
        raise NotApplicableError("`more` declares no command")
    plugin = await bench.plugin()
    async with bench.own_world() as world, reading(plugin, world, bench.order()) as task:
        await task.read(declared.rows)
        await world.run(declared.more)
        wanted = declared.rows + declared.more_rows
        await task.read(wanted, seconds=case.seconds)
        found = len(task.trace.rows)
        require(found == wanted, f"{found} rows came, {wanted} are declared")


async def _return_to(bench: Bench, place: Place) -> None:
    """Open at a place of the trial, and compare with what came after it there."""
    plugin = await bench.plugin()
    trial = (await bench.trial()).trace
    async with bench.world() as world:
        after = await _rest(bench, plugin, world, place.offsets, place.rows)
        wanted = bench.texts(trial.rows[place.rows :], world)
        if how := difference(wanted, bench.texts(after, world)):
            raise RuleBrokenError(f"from checkpoint {place.id}: {how}")


async def _leave_and_return(bench: Bench, checkpoint_id: int) -> None:
    """Read to a checkpoint and commit it, lose the host, and read on in the same process."""
    plugin = await bench.plugin()
    async with bench.own_world() as world:
        async with reading(plugin, world, bench.order(**SMALL)) as task:
            place = await _read_to(task, max(checkpoint_id, 1))
            if checkpoint_id:
                await task.commit(place.id)
                await task.quiet(0.1)
        before = task.trace.rows[: place.rows] if checkpoint_id else []
        offsets = place.offsets if checkpoint_id else {}
        after = await _rest(bench, plugin, world, offsets, len(before), task.order.task_id)
        await _compare(bench, world, [*before, *after], f"from checkpoint {checkpoint_id}: ")


async def _rest(
    bench: Bench, plugin: Plugin, world: World, offsets: Offsets, before: int, task_id: str = ""
) -> list[Taken]:
    order = bench.order(offsets=offsets, **SMALL)
    if task_id:
        order = replace(order, task_id=task_id, epoch=2)
    async with reading(plugin, world, order) as task:
        return list((await bench.read_all(task, before)).rows)


async def _read_to(task: Reading, checkpoint_id: int) -> Place:
    """Read to a checkpoint; the rows before it are taken."""
    while not task.trace.places or task.trace.places[-1].id < checkpoint_id:
        frame = await task.next()
        require(frame is not None, f"the stream ended before checkpoint {checkpoint_id}")
        assert frame is not None  # noqa: S101 - as required
        require(not frame.HasField("drained"), f"it ended before checkpoint {checkpoint_id}")
        if frame.HasField("ready"):
            await task.take(frame.ready)
            await task.release(frame.ready.seq)
        elif frame.HasField("checkpoint") and frame.checkpoint.await_commit:
            await task.commit(frame.checkpoint.checkpoint_id)
    return task.trace.places[-1]


async def _read_what_comes(task: Reading) -> None:
    """Take and release all rows that come without any commit."""
    try:
        while (frame := await task.next(_SILENCE)) is not None:
            if frame.HasField("ready"):
                await task.take(frame.ready)
                await task.release(frame.ready.seq)
            elif frame.HasField("drained"):
                return
    except TimeoutError:
        return


async def _compare(bench: Bench, world: World, rows: list[Taken], where: str = "") -> None:
    wanted = (await bench.trial()).texts
    if how := difference(wanted, bench.texts(rows, world)):
        raise RuleBrokenError(where + how)


def _spread(places: list[Place], most: int) -> list[Place]:
    """Return at most so many places, the first and the last among them."""
    if len(places) <= most:
        return places
    step = (len(places) - 1) / (most - 1)
    return [places[round(number * step)] for number in range(most)]
