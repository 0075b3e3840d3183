"""A source that resumes: from every checkpoint, after a crash, under a new owner."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from penstock_kit.conformance.bench import SMALL_BATCHES, Bench, case
from penstock_kit.conformance.calls import RefusedError
from penstock_kit.conformance.cases import Case
from penstock_kit.conformance.process import Plugin
from penstock_kit.conformance.results import NotApplicableError, RuleBrokenError, present, require
from penstock_kit.conformance.rows import describe_difference
from penstock_kit.conformance.sandbox import Sandbox
from penstock_kit.conformance.source_task import (
    Checkpoint,
    Offsets,
    SourceRow,
    SourceTask,
    open_source,
)

_MAX_CHECKPOINTS = 12
_MAX_SANDBOXES = 4
_SILENCE_S = 0.5
"""A read without commits ends after this time without a frame."""


@case("resume.every_checkpoint")
async def every_checkpoint(bench: Bench, case: Case) -> None:
    """From the offsets of each checkpoint it resumes with exactly the rows after it."""
    checkpoints = (await bench.baseline()).trace.checkpoints
    if bench.spec.source.needs_commit:
        for checkpoint in _sample(checkpoints, _MAX_SANDBOXES):
            await _lose_host_and_resume(bench, checkpoint.id)
        return
    for checkpoint in _sample(checkpoints, _MAX_CHECKPOINTS):
        await _resume_from(bench, checkpoint)


@case("resume.beginning")
async def beginning(bench: Bench, case: Case) -> None:
    """A task that never committed starts from the beginning again."""
    await _lose_host_and_resume(bench, 0)


@case("resume.zero_rows")
async def zero_rows(bench: Bench, case: Case) -> None:
    """A checkpoint without rows counts: a task resumes from its offsets, too."""
    trace = (await bench.baseline()).trace
    empty = {c.checkpoint_id for c in trace.of_kind("checkpoint") if not c.rows}
    checkpoints = [checkpoint for checkpoint in trace.checkpoints if checkpoint.id in empty]
    if not checkpoints:
        raise NotApplicableError("no checkpoint without rows came")
    for checkpoint in _sample(checkpoints, _MAX_SANDBOXES):
        if bench.spec.source.needs_commit:
            await _lose_host_and_resume(bench, checkpoint.id)
        else:
            await _resume_from(bench, checkpoint)


@case("resume.crash")
async def crash(bench: Bench, case: Case) -> None:
    """After a kill between a batch and its Committed, the next run sends what was not committed."""
    baseline = (await bench.baseline()).trace
    middle = [
        checkpoint.id
        for checkpoint in baseline.checkpoints
        if 0 < checkpoint.rows < len(baseline.rows)
    ]
    async with bench.new_sandbox() as sandbox:
        async with (
            bench.start_plugin() as plugin,
            open_source(plugin, sandbox, bench.read_options(**SMALL_BATCHES)) as task,
        ):
            before: list[SourceRow] = []
            offsets: Offsets = {}
            if middle:
                checkpoint = await _read_to(task, middle[0])
                before, offsets = task.trace.rows[: checkpoint.rows], checkpoint.offsets
                await task.commit(checkpoint.id)
            await task.fetch_rows((await task.until("ready")).ready)
            await plugin.kill()
        after = await _read_rest(bench, await bench.shared_plugin(), sandbox, offsets, len(before))
        await _compare(bench, sandbox, [*before, *after])


@case("commit.gated")
async def gated(bench: Bench, case: Case) -> None:
    """Nothing is removed or acknowledged at the external system before Committed: without a commit
    of a row the next run sends every row again.
    """
    async with bench.new_sandbox() as sandbox:
        async with (
            bench.start_plugin() as plugin,
            open_source(plugin, sandbox, bench.read_options(**SMALL_BATCHES)) as task,
        ):
            offsets = await _read_uncommitted(task)
            await plugin.kill()
        after = await _read_rest(bench, await bench.shared_plugin(), sandbox, offsets, 0)
        await _compare(bench, sandbox, after)


@case("commit.repeated")
async def repeated(bench: Bench, case: Case) -> None:
    """Committed is cumulative: a repeated one, or one of an older checkpoint, changes nothing."""
    plugin = await bench.shared_plugin()
    async with (
        bench.new_sandbox() as sandbox,
        open_source(plugin, sandbox, bench.read_options(**SMALL_BATCHES)) as task,
    ):
        checkpoint = await _read_to(task, 1)
        for id_ in (checkpoint.id, checkpoint.id, 0):
            await task.commit(id_)
        await bench.read_all(task)
        await _compare(bench, sandbox, task.trace.rows)


@case("commit.confirmed")
async def confirmed(bench: Bench, case: Case) -> None:
    """A commit that it waits for is confirmed in a Progress, and the task continues."""
    baseline = await bench.baseline()
    if not any(checkpoint.await_commit for checkpoint in baseline.trace.of_kind("checkpoint")):
        raise NotApplicableError("no checkpoint waits for a commit")
    plugin = await bench.shared_plugin()
    async with (
        bench.new_sandbox() as sandbox,
        open_source(plugin, sandbox, bench.read_options(**SMALL_BATCHES)) as task,
    ):
        require(task.opened.confirms_commits, "it waits for commits and does not confirm them")
        while True:
            checkpoint = (await task.until("checkpoint")).checkpoint
            if checkpoint.await_commit:
                break
            await task.release(checkpoint.last_seq)
        await task.commit(checkpoint.checkpoint_id)
        confirmed_id = 0
        while confirmed_id < checkpoint.checkpoint_id:
            confirmed_id = (
                await task.until("progress", case.seconds)
            ).progress.committed_checkpoint_id


@case("read.follows")
async def follows(bench: Bench, case: Case) -> None:
    """Rows that are added during a read come, too."""
    declaration = bench.declaration
    if not declaration.more:
        raise NotApplicableError("`more` is not declared")
    plugin = await bench.shared_plugin()
    async with (
        bench.new_sandbox() as sandbox,
        open_source(plugin, sandbox, bench.read_options()) as task,
    ):
        await task.read(declaration.rows)
        await sandbox.run(declaration.more)
        expected = declaration.rows + declaration.more_rows
        await task.read(expected, seconds=case.seconds)
        found = len(task.trace.rows)
        require(found == expected, f"{found} rows came, {expected} are declared")


async def _resume_from(bench: Bench, checkpoint: Checkpoint) -> None:
    """Open at a checkpoint of the baseline, and compare with its rows after that."""
    plugin = await bench.shared_plugin()
    baseline = (await bench.baseline()).trace
    async with bench.sandbox() as sandbox:
        after = await _read_rest(bench, plugin, sandbox, checkpoint.offsets, checkpoint.rows)
        expected = bench.canonical_rows(baseline.rows[checkpoint.rows :], sandbox)
        if text := describe_difference(expected, bench.canonical_rows(after, sandbox)):
            raise RuleBrokenError(f"from checkpoint {checkpoint.id}: {text}")


async def _lose_host_and_resume(bench: Bench, checkpoint_id: int) -> None:
    """Read to a checkpoint, commit it, lose the host, and resume in the same process."""
    plugin = await bench.shared_plugin()
    async with bench.new_sandbox() as sandbox:
        async with open_source(plugin, sandbox, bench.read_options(**SMALL_BATCHES)) as task:
            checkpoint = await _read_to(task, max(checkpoint_id, 1))
            if checkpoint_id:
                await task.commit(checkpoint.id)
                await task.collect_ready(0.1)
        before = task.trace.rows[: checkpoint.rows] if checkpoint_id else []
        offsets = checkpoint.offsets if checkpoint_id else {}
        after = await _read_rest(bench, plugin, sandbox, offsets, len(before), task.options.task_id)
        await _compare(bench, sandbox, [*before, *after], f"from checkpoint {checkpoint_id}: ")


async def _read_rest(
    bench: Bench, plugin: Plugin, sandbox: Sandbox, offsets: Offsets, before: int, task_id: str = ""
) -> list[SourceRow]:
    options = bench.read_options(offsets=offsets, **SMALL_BATCHES)
    if task_id:
        options = replace(options, task_id=task_id, epoch=2)
    async with open_source(plugin, sandbox, options) as task:
        return list((await bench.read_all(task, before)).rows)


async def _read_to(task: SourceTask, checkpoint_id: int) -> Checkpoint:
    """Fetch and release all rows up to a checkpoint; return it."""
    while not task.trace.checkpoints or task.trace.checkpoints[-1].id < checkpoint_id:
        ended = f"the stream ended before checkpoint {checkpoint_id}"
        frame = present(await task.next(), ended)
        require(not frame.HasField("drained"), f"it ended before checkpoint {checkpoint_id}")
        if frame.HasField("ready"):
            await task.fetch_rows(frame.ready)
            await task.release(frame.ready.seq)
        elif frame.HasField("checkpoint") and frame.checkpoint.await_commit:
            await task.commit(frame.checkpoint.checkpoint_id)
    return task.trace.checkpoints[-1]


async def _read_uncommitted(task: SourceTask) -> Offsets:
    """Fetch and release all rows that come without a commit of a row. Return the offsets before the
    first row, when the source waited for their commit.
    """
    ready = (await task.until("ready")).ready
    offsets: Offsets = {}
    for checkpoint in task.trace.of_kind("checkpoint"):
        if checkpoint.await_commit:
            offsets = checkpoint.offsets
    await task.fetch_rows(ready)
    await task.release(ready.seq)
    try:
        while (frame := await task.next(_SILENCE_S)) is not None:
            if frame.HasField("ready"):
                await task.fetch_rows(frame.ready)
                await task.release(frame.ready.seq)
            elif frame.HasField("drained"):
                break
    except TimeoutError:
        pass
    return offsets


async def _compare(bench: Bench, sandbox: Sandbox, rows: list[SourceRow], prefix: str = "") -> None:
    expected = (await bench.baseline()).canonical_rows
    if text := describe_difference(expected, bench.canonical_rows(rows, sandbox)):
        raise RuleBrokenError(prefix + text)


def _sample(checkpoints: list[Checkpoint], limit: int) -> list[Checkpoint]:
    """Return at most `limit` checkpoints, spread evenly, with the first and the last."""
    if len(checkpoints) <= limit:
        return checkpoints
    step = (len(checkpoints) - 1) / (limit - 1)
    return [checkpoints[round(number * step)] for number in range(limit)]


@case("epoch.fetch")
async def fetch(bench: Bench, case: Case) -> None:
    """A Fetch with an older epoch than the task's is refused as FENCED."""
    plugin = await bench.shared_plugin()
    options = bench.read_options(epoch=2)
    async with bench.sandbox() as sandbox, open_source(plugin, sandbox, options) as task:
        ready = (await task.until("ready")).ready
        try:
            await task.fetch(ready.seq, epoch=1)
        except RefusedError as error:
            require(error.is_fenced, f"it was refused, but not as FENCED: {error}")
        else:
            raise RuleBrokenError("a Fetch of epoch 1 got rows of a task of epoch 2")


@case("epoch.open_read")
async def open_read(bench: Bench, case: Case) -> None:
    """An Open with an older epoch than the task's is refused as FENCED."""
    plugin = await bench.shared_plugin()
    options = bench.read_options(epoch=2)
    async with bench.sandbox() as sandbox, open_source(plugin, sandbox, options):
        try:
            async with open_source(plugin, sandbox, replace(options, epoch=1)):
                pass
        except RefusedError as error:
            require(error.is_fenced, f"it was refused, but not as FENCED: {error}")
        else:
            raise RuleBrokenError("epoch 1 was opened beside epoch 2 of one task")


@case("epoch.takeover_read")
async def takeover_read(bench: Bench, case: Case) -> None:
    """A second Open of a task ends the older stream; the newer one gets every row."""
    plugin = await bench.shared_plugin()
    options = bench.read_options(**SMALL_BATCHES)
    async with bench.sandbox() as sandbox, open_source(plugin, sandbox, options) as older:
        await older.until("ready")
        async with open_source(plugin, sandbox, replace(options, epoch=2)) as newer:
            trace = await bench.read_all(newer)
            await _wait_for_end(older, case.seconds)
            if text := describe_difference(
                (await bench.baseline()).canonical_rows, bench.canonical_rows(trace.rows, sandbox)
            ):
                raise RuleBrokenError(text)


@case("tasks.several_read")
async def several_read(bench: Bench, case: Case) -> None:
    """Two tasks in one process read concurrently and independently."""
    plugin = await bench.shared_plugin()
    expected = (await bench.baseline()).canonical_rows

    async def one() -> str:
        """Read all rows once both tasks are open."""
        async with (
            bench.new_sandbox() as sandbox,
            open_source(plugin, sandbox, bench.read_options(**SMALL_BATCHES)) as task,
        ):
            await opened.wait()
            trace = await bench.read_all(task)
            return describe_difference(expected, bench.canonical_rows(trace.rows, sandbox))

    opened = asyncio.Barrier(2)
    for text in await asyncio.gather(one(), one()):
        require(not text, text)


async def _wait_for_end(older: SourceTask, seconds: float) -> None:
    clock = asyncio.get_running_loop().time
    until = clock() + seconds
    try:
        while await older.next(max(0.01, until - clock())) is not None:
            pass
    except TimeoutError:
        raise RuleBrokenError(f"the older stream went on for {seconds:g} s") from None
    except RefusedError as error:
        require(error.is_fenced, f"the older stream ended, but not as FENCED: {error}")
