"""An undisturbed read of a source: frames, rows, limits, control frames, lost hosts."""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack

from penstock.api.record.v1 import record_pb2
from penstock_kit.conformance.bench import SMALL_BATCHES, Bench, case
from penstock_kit.conformance.calls import UNKNOWN_FRAME, RefusedError
from penstock_kit.conformance.cases import Case
from penstock_kit.conformance.process import stable_resource_count, wait_for_release
from penstock_kit.conformance.results import NotApplicableError, RuleBrokenError, require
from penstock_kit.conformance.rows import (
    canonical_text,
    describe_difference,
    parse_json_lines,
    to_json_value,
)
from penstock_kit.conformance.sandbox import Sandbox
from penstock_kit.conformance.source_task import SourceRow, open_source
from penstock_values.identity import is_partition_id
from penstock_values.memory_files import can_read

_QUIET_S = 0.5
"""A source that overdraws its credit does so within this time. Longer only takes time."""
_SMALL_MESSAGE_BYTES = 128 << 10
_LOST_HOSTS = 8
_POOL_GROWTH = 4
"""Threads and open files of pools that may still grow."""


@case("read.rows")
async def rows(bench: Bench, case: Case) -> None:
    """All declared rows come; a bounded source ends with Drained."""
    baseline = await bench.baseline()
    expected = bench.declaration.rows
    found = len(baseline.trace.rows)
    require(found, "no row came")
    require(not expected or found == expected, f"{found} rows came, {expected} are declared")


@case("read.sequence")
async def sequence(bench: Bench, case: Case) -> None:
    """Batches and checkpoints are numbered from 1, without gaps."""
    trace = (await bench.baseline()).trace
    for kind, field in (("ready", "seq"), ("checkpoint", "checkpoint_id")):
        numbers = [getattr(frame, field) for frame in trace.of_kind(kind)]
        require(
            numbers == list(range(1, len(numbers) + 1)),
            f"{field} is {', '.join(map(str, numbers[:20]))} …",
        )


@case("read.counts")
async def counts(bench: Bench, case: Case) -> None:
    """Each checkpoint has the number of rows since the last one, and the batch before it."""
    announced, last_seq = 0, 0
    for frame in (await bench.baseline()).trace.frames:
        if frame.HasField("ready"):
            announced, last_seq = announced + frame.ready.rows, frame.ready.seq
        elif frame.HasField("checkpoint"):
            checkpoint = frame.checkpoint
            where = f"checkpoint {checkpoint.checkpoint_id}"
            require(
                checkpoint.rows == announced,
                f"{where} has {checkpoint.rows} rows, expected {announced}",
            )
            require(
                checkpoint.last_seq == last_seq,
                f"{where} follows batch {checkpoint.last_seq}, expected {last_seq}",
            )
            announced = 0


@case("read.schema_first")
async def schema_first(bench: Bench, case: Case) -> None:
    """A schema is sent before its first batch, and an id always means the same schema."""
    known: dict[int, bytes] = {}
    for frame in (await bench.baseline()).trace.frames:
        if frame.HasField("schema"):
            id_, content = frame.schema.schema_id, frame.schema.SerializeToString()
            require(
                known.setdefault(id_, content) == content,
                f"schema {id_} was sent with two contents",
            )
        elif frame.HasField("ready"):
            id_ = frame.ready.schema_id
            require(
                id_ in known, f"batch {frame.ready.seq} has schema {id_}, which was not sent before"
            )


@case("read.partitions")
async def partitions(bench: Bench, case: Case) -> None:
    """Partition ids in batches and offsets are the canonical JSON of their key."""
    trace = (await bench.baseline()).trace
    named = [ready.partition_id for ready in trace.of_kind("ready")]
    named += [id_ for one in trace.checkpoints for id_ in one.offsets]
    for id_ in dict.fromkeys(named):
        text = f"{id_[:100]!r} is not the canonical JSON of a partition's key"
        require(is_partition_id(id_), text)


@case("read.end")
async def end(bench: Bench, case: Case) -> None:
    """Drained is the last frame and names the last checkpoint, which covers all rows."""
    if not bench.is_bounded:
        raise NotApplicableError("it does not end")
    async with bench.sandbox() as sandbox:
        plugin = await bench.shared_plugin()
        async with open_source(plugin, sandbox, bench.read_options()) as task:
            trace = await bench.read_all(task)
            await task.collect_ready(0.1)
    kinds = [str(frame.WhichOneof("kind")) for frame in trace.frames]
    require(kinds[-1] == "drained", f"{kinds[-1]} came after drained")
    last = trace.checkpoints[-1].id if trace.checkpoints else 0
    drained = trace.of_kind("drained")[0].checkpoint_id
    require(drained == last, f"Drained names checkpoint {drained}, the last was {last}")
    left = len(trace.rows) - (trace.checkpoints[-1].rows if trace.checkpoints else 0)
    require(not left, f"{left} rows came after the last checkpoint")


@case("read.bytes")
async def sizes(bench: Bench, case: Case) -> None:
    """The announced bytes of a batch are at least those of its data in all chunks."""
    plugin = await bench.shared_plugin()
    async with (
        bench.sandbox() as sandbox,
        open_source(plugin, sandbox, bench.read_options()) as task,
    ):
        ready = (await task.until("ready")).ready
        size = sum(len(chunk.data) for chunk in await task.fetch(ready.seq))
        require(
            size <= ready.bytes,
            f"batch {ready.seq} was announced with {ready.bytes} bytes and has {size}",
        )


@case("read.memory_files")
async def in_memory_files(bench: Bench, case: Case) -> None:
    """Rows fetched in memory files are the same; a file is closed when its batch is released."""
    plugin = await bench.shared_plugin()
    if not await plugin.shares_memory():
        raise NotApplicableError("it shows no memory file")
    baseline = await bench.baseline()
    async with (
        bench.sandbox() as sandbox,
        open_source(plugin, sandbox, bench.read_options(memory_files=True)) as task,
    ):
        trace = await bench.read_all(task)
        found = bench.canonical_rows(trace.rows, sandbox)
        for file in trace.memory_files:
            await _require_closed(file, case.seconds)
    if text := describe_difference(baseline.canonical_rows, found):
        raise RuleBrokenError(text)


@case("read.caught_up")
async def caught_up(bench: Bench, case: Case) -> None:
    """A source that says that it ends when it has caught up gives all rows, then Drained."""
    plugin, baseline = await bench.shared_plugin(), await bench.baseline()
    options = bench.read_options(until_caught_up=True)
    async with bench.sandbox() as sandbox, open_source(plugin, sandbox, options) as task:
        if not task.opened.ends_when_caught_up:
            raise NotApplicableError("it does not tell when it has caught up")
        trace = await task.read(sys.maxsize, case.seconds)
        require(trace.drained, "it ended its stream without Drained")
        found = bench.canonical_rows(trace.rows, sandbox)
    if text := describe_difference(baseline.canonical_rows, found):
        raise RuleBrokenError(text)


async def _require_closed(file: record_pb2.MemoryFile, seconds: float) -> None:
    clock = asyncio.get_running_loop().time
    deadline = clock() + seconds
    while can_read(file):
        require(clock() < deadline, "a memory file is open after the release of its batch")
        await asyncio.sleep(0.01)


@case("read.values")
async def values(bench: Bench, case: Case) -> None:
    """Every value is the one of the author's file, to the last digit."""
    if not bench.declaration.expect:
        raise NotApplicableError("`expect` is not declared")
    baseline = await bench.baseline()
    async with bench.sandbox() as sandbox:
        file = bench.plugin_under_test.folder / sandbox.expand(bench.declaration.expect)
        expected = [
            canonical_text(to_json_value(dict(row)))
            for row in parse_json_lines(file.read_text("utf-8"))
        ]
        omitted = bench.declaration.volatile
        found = [sandbox.normalize(canonical_text(one.row, omitted)) for one in baseline.trace.rows]
    if text := describe_difference(expected, found):
        raise RuleBrokenError(text)


@case("credit.respected")
async def respected(bench: Bench, case: Case) -> None:
    """Without credit no batch is announced; one may overdraw it, and a release allows the next."""
    plugin = await bench.shared_plugin()
    async with bench.sandbox() as sandbox:
        options = bench.read_options(credit=1, max_batch_rows=2)
        async with open_source(plugin, sandbox, options) as task:
            for round_ in (1, 2):
                first = (await task.until("ready")).ready
                more = await task.collect_ready(_QUIET_S)
                require(
                    not more,
                    f"{1 + len(more)} batches were announced on a credit of 1 byte, one may be",
                )
                require(first.seq == round_, f"batch {first.seq} came after {round_ - 1} releases")
                if (
                    task.trace.drained
                    or len(await task.fetch_rows(first)) == bench.declaration.rows
                ):
                    raise NotApplicableError("all rows came in one batch")
                await task.release(first.seq)


@case("limits.rows")
async def row_limit(bench: Bench, case: Case) -> None:
    """No batch has more rows than the limit of the host."""
    plugin = await bench.shared_plugin()
    async with bench.sandbox() as sandbox:
        async with open_source(plugin, sandbox, bench.read_options(max_batch_rows=3)) as task:
            trace = await bench.read_all(task)
        largest = max((ready.rows for ready in trace.of_kind("ready")), default=0)
        require(largest <= 3, f"a batch has {largest} rows, the limit is 3")
        if text := describe_difference(
            (await bench.baseline()).canonical_rows, bench.canonical_rows(trace.rows, sandbox)
        ):
            raise RuleBrokenError(text)


@case("limits.message")
async def message(bench: Bench, case: Case) -> None:
    """No message of Fetch is larger than the limit of the host."""
    plugin = await bench.shared_plugin()
    options = bench.read_options(max_message_bytes=_SMALL_MESSAGE_BYTES)
    async with bench.sandbox() as sandbox, open_source(plugin, sandbox, options) as task:
        trace = await bench.read_all(task)
    require(
        trace.largest_frame <= _SMALL_MESSAGE_BYTES,
        f"a message has {trace.largest_frame} bytes, the limit is {_SMALL_MESSAGE_BYTES}",
    )


@case("limits.big_row")
async def big_row(bench: Bench, case: Case) -> None:
    """A row of 64 MiB, larger than a message, comes in chunks and is never dropped."""
    if not bench.declaration.big_row:
        raise NotApplicableError("`big_row` is not declared")
    plugin = await bench.shared_plugin()
    async with bench.new_sandbox() as sandbox:
        if bench.declaration.big_input:
            await sandbox.run(bench.declaration.big_input)
        options = bench.read_options(override=sandbox.expand_all(bench.declaration.big_row))
        async with open_source(plugin, sandbox, options) as task:
            await task.read(1, seconds=case.seconds)
        trace = task.trace
    require(trace.rows, "no row came")
    longest = max(len(str(value)) for one in trace.rows for value in one.row.values())
    require(longest >= 64 << 20, f"the longest value has {longest} characters, not 64 MiB")
    require(
        trace.largest_frame <= options.max_message_bytes,
        f"a message has {trace.largest_frame} bytes, the limit is {options.max_message_bytes}",
    )
    if trace.chunks == 1:
        raise NotApplicableError(
            f"64 MiB, compressed to {trace.largest_frame} bytes, fit into one message: let "
            "`big_row` make a row that does not compress"
        )


@case("frames.unknown_read")
async def unknown_read(bench: Bench, case: Case) -> None:
    """Frames of an unknown kind are ignored, and the task continues."""
    plugin = await bench.shared_plugin()
    async with (
        bench.sandbox() as sandbox,
        open_source(plugin, sandbox, bench.read_options(**SMALL_BATCHES)) as task,
    ):
        await task.send_raw(UNKNOWN_FRAME)
        await task.send()
        trace = await bench.read_all(task)
        await _compare(bench, sandbox, trace.rows)


@case("fetch.again")
async def again(bench: Bench, case: Case) -> None:
    """A batch can be fetched again until it is released; one that was not announced is refused."""
    plugin = await bench.shared_plugin()
    options = bench.read_options(credit=1, max_batch_rows=2)
    async with bench.sandbox() as sandbox, open_source(plugin, sandbox, options) as task:
        ready = (await task.until("ready")).ready
        first, second = [await task.fetch(ready.seq) for _ in range(2)]
        require(
            [chunk.data for chunk in first] == [chunk.data for chunk in second],
            "two Fetches of one batch have different bytes",
        )
        try:
            await task.fetch(ready.seq + 1000)
        except RefusedError:
            return
        raise RuleBrokenError("Fetch returned a batch that was never announced")


@case("heartbeat.read")
async def heartbeat(bench: Bench, case: Case) -> None:
    """A Progress comes in every announced interval, without news, too."""
    plugin = await bench.shared_plugin()
    async with bench.new_sandbox() as sandbox:
        options = bench.read_options(credit=1, max_batch_rows=1)
        async with open_source(plugin, sandbox, options) as task:
            promised = task.opened.heartbeat_every.ToTimedelta().total_seconds()
            require(promised > 0, "ReadOpened.heartbeat_every is not set")
            limit = case.seconds
            require(promised <= limit, f"a heartbeat every {promised:g} s, the limit is {limit:g}")
            await task.until("ready")
            await task.until("progress", promised)
            require(not task.trace.drained, "it ended without a Release")


@case("host.lost_read")
async def lost_read(bench: Bench, case: Case) -> None:
    """A lost host leaves no thread and no open file in the process, and the next one gets every
    row.
    """
    async with bench.new_sandbox() as sandbox, bench.start_plugin() as plugin:
        for lost in range(_LOST_HOSTS):
            async with open_source(
                plugin, sandbox, bench.read_options(credit=1, **SMALL_BATCHES)
            ) as task:
                await task.until("ready")
            if not lost:
                baseline = await stable_resource_count(plugin.pid, case.seconds)
        async with open_source(plugin, sandbox, bench.read_options(**SMALL_BATCHES)) as task:
            trace = await bench.read_all(task)
            await _compare(bench, sandbox, trace.rows)
        more = await wait_for_release(plugin.pid, baseline + _POOL_GROWTH, case.seconds)
    require(
        not more,
        f"{more + _POOL_GROWTH} more threads and open files after {_LOST_HOSTS} lost hosts",
    )


@case("end.stdin_reading")
async def stdin_reading(bench: Bench, case: Case) -> None:
    """The end of standard input ends the process also while a task is open."""
    async with (
        bench.new_sandbox() as sandbox,
        bench.start_plugin() as plugin,
        AsyncExitStack() as stack,
    ):
        task = await stack.enter_async_context(
            open_source(plugin, sandbox, bench.read_options(credit=1, **SMALL_BATCHES))
        )
        await task.until("ready")
        plugin.close_stdin()
        require(
            await plugin.wait_for_exit(case.seconds),
            f"it ran on for {case.seconds:g} s after the end of its standard input",
        )


async def _compare(bench: Bench, sandbox: Sandbox, rows: list[SourceRow]) -> None:
    if text := describe_difference(
        (await bench.baseline()).canonical_rows, bench.canonical_rows(rows, sandbox)
    ):
        raise RuleBrokenError(text)
