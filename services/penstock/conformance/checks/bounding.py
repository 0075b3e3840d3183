"""Bounds that a source keeps: credit, rows of a batch, bytes of a message."""

from __future__ import annotations

from penstock.conformance.bench import Bench
from penstock.conformance.cases import Case
from penstock.conformance.checks.register import case
from penstock.conformance.reading import reading
from penstock.conformance.rows import difference
from penstock.conformance.verdict import NotApplicableError, RuleBrokenError, require

_QUIET = 0.5
"""Seconds in which a source that would overdraw its credit has done so. Longer only takes time."""
_SMALL_MESSAGE = 128 << 10


@case("credit.respected")
async def respected(bench: Bench, case: Case) -> None:
    """With no credit left nothing is announced; one batch may overdraw it; a release goes on."""
    del case
    plugin = await bench.plugin()
    async with bench.world() as world:
        order = bench.order(credit=1, max_batch_rows=2)
        async with reading(plugin, world, order) as task:
            for round_ in (1, 2):
                first = (await task.until("ready")).ready
                more = await task.quiet(_QUIET)
                require(
                    not more,
                    f"{1 + len(more)} batches were announced on a credit of 1 byte, one may be",
                )
                require(first.seq == round_, f"batch {first.seq} came after {round_ - 1} releases")
                if task.trace.drained or len(await task.take(first)) == bench.declared.rows:
                    raise NotApplicableError("all rows came in one batch of its own")
                await task.release(first.seq)


@case("limits.rows")
async def rows(bench: Bench, case: Case) -> None:
    """No batch has more rows than the host takes."""
    del case
    plugin = await bench.plugin()
    async with bench.world() as world:
        async with reading(plugin, world, bench.order(max_batch_rows=3)) as task:
            trace = await bench.read_all(task)
        largest = max((ready.rows for ready in trace.of_kind("ready")), default=0)
        require(largest <= 3, f"a batch has {largest} rows, the host takes 3 at most")
        if how := difference((await bench.trial()).texts, bench.texts(trace.rows, world)):
            raise RuleBrokenError(how)


@case("limits.message")
async def message(bench: Bench, case: Case) -> None:
    """No message of Fetch is larger than the host takes."""
    del case
    plugin = await bench.plugin()
    order = bench.order(max_message_bytes=_SMALL_MESSAGE)
    async with bench.world() as world, reading(plugin, world, order) as task:
        trace = await bench.read_all(task)
    require(
        trace.largest_frame <= _SMALL_MESSAGE,
        f"a message has {trace.largest_frame} bytes, the host takes {_SMALL_MESSAGE}",
    )


@case("limits.big_row")
async def big_row(bench: Bench, case: Case) -> None:
    """A row larger than a message, of 64 MiB, comes in chunks and is never dropped."""
    if not bench.declared.big_row:
        raise NotApplicableError("`big_row` declares no configuration")
    plugin = await bench.plugin()
    async with bench.own_world() as world:
        if bench.declared.big_input:
            await world.run(bench.declared.big_input)
        order = bench.order(override=world.filled(bench.declared.big_row))
        async with reading(plugin, world, order) as task:
            await task.read(1, seconds=case.seconds)
        trace = task.trace
    require(trace.rows, "no row came")
    longest = max(len(str(value)) for one in trace.rows for value in one.row.values())
    require(longest >= 64 << 20, f"the longest value has {longest} characters, not 64 MiB")
    require(
        trace.largest_frame <= order.max_message_bytes,
        f"a message has {trace.largest_frame} bytes, the host takes {order.max_message_bytes}",
    )
    if trace.chunks == 1:
        raise NotApplicableError(
            f"64 MiB, compressed to {trace.largest_frame} bytes, fit into one message: let "
            "`big_row` make a row that does not compress"
        )
