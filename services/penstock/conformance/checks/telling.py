"""What a source tells on its control stream while nobody disturbs it."""

from __future__ import annotations

from penstock.conformance.bench import Bench
from penstock.conformance.cases import Case
from penstock.conformance.checks.register import case
from penstock.conformance.reading import reading
from penstock.conformance.rows import difference, plain, read_lines, text_of
from penstock.conformance.verdict import NotApplicableError, RuleBrokenError, require
from penstock.model.identity import is_partition_id


@case("read.rows")
async def rows(bench: Bench, case: Case) -> None:
    """All rows come, each once, and a bounded source says that it is at its end."""
    del case
    trial = await bench.trial()
    wanted = bench.declared.rows
    found = len(trial.trace.rows)
    require(found, "no row came")
    require(not wanted or found == wanted, f"{found} rows came, {wanted} are declared")


@case("read.sequence")
async def sequence(bench: Bench, case: Case) -> None:
    """Batches and checkpoints are numbered from 1, without gaps."""
    del case
    trace = (await bench.trial()).trace
    for kind, field in (("ready", "seq"), ("checkpoint", "checkpoint_id")):
        numbers = [getattr(frame, field) for frame in trace.of_kind(kind)]
        require(
            numbers == list(range(1, len(numbers) + 1)),
            f"{field} goes {', '.join(map(str, numbers[:20]))} …",
        )


@case("read.counts")
async def counts(bench: Bench, case: Case) -> None:
    """Each checkpoint says how many rows came since the last one, and after which batch it is."""
    del case
    announced, last_seq = 0, 0
    for frame in (await bench.trial()).trace.frames:
        if frame.HasField("ready"):
            announced, last_seq = announced + frame.ready.rows, frame.ready.seq
        elif frame.HasField("checkpoint"):
            place = frame.checkpoint
            where = f"checkpoint {place.checkpoint_id}"
            require(place.rows == announced, f"{where} says {place.rows} rows, it is {announced}")
            require(
                place.last_seq == last_seq,
                f"{where} says that it follows batch {place.last_seq}, it is {last_seq}",
            )
            announced = 0


@case("read.schema_first")
async def schema_first(bench: Bench, case: Case) -> None:
    """A schema is sent before the first batch of it, and an id means one schema for ever."""
    del case
    known: dict[int, bytes] = {}
    for frame in (await bench.trial()).trace.frames:
        if frame.HasField("schema"):
            id_, content = frame.schema.schema_id, frame.schema.SerializeToString()
            require(known.setdefault(id_, content) == content, f"schema {id_} came as two")
        elif frame.HasField("ready"):
            id_ = frame.ready.schema_id
            require(id_ in known, f"batch {frame.ready.seq} has schema {id_}, not sent before")


@case("read.partitions")
async def partitions(bench: Bench, case: Case) -> None:
    """Partitions are named by the canonical JSON of their key, in batches and in offsets."""
    del case
    trace = (await bench.trial()).trace
    named = [ready.partition_id for ready in trace.of_kind("ready")]
    named += [id_ for place in trace.places for id_ in place.offsets]
    for id_ in dict.fromkeys(named):
        how = f"{id_[:100]!r} is not the canonical JSON of a partition's key"
        require(is_partition_id(id_), how)


@case("read.end")
async def end(bench: Bench, case: Case) -> None:
    """Drained comes last, names the last checkpoint, and leaves no row without a place."""
    del case
    async with bench.world() as world:
        plugin = await bench.plugin()
        async with reading(plugin, world, bench.order()) as task:
            trace = await bench.read_all(task)
            await task.quiet(0.1)
    kinds = [str(frame.WhichOneof("kind")) for frame in trace.frames]
    require(kinds[-1] == "drained", f"{kinds[-1]} came after drained")
    last = trace.places[-1].id if trace.places else 0
    drained = trace.of_kind("drained")[0].checkpoint_id
    require(drained == last, f"Drained names checkpoint {drained}, the last was {last}")
    if bench.ends:
        left = len(trace.rows) - (trace.places[-1].rows if trace.places else 0)
        require(not left, f"{left} rows came after the last checkpoint")


@case("read.bytes")
async def sizes(bench: Bench, case: Case) -> None:
    """The bytes that a batch is announced with are at least those of its data in all chunks."""
    del case
    plugin = await bench.plugin()
    async with bench.world() as world, reading(plugin, world, bench.order()) as task:
        ready = (await task.until("ready")).ready
        size = sum(len(chunk.data) for chunk in await task.fetch(ready.seq))
        require(
            size <= ready.bytes,
            f"batch {ready.seq} was announced with {ready.bytes} bytes and has {size}",
        )


@case("read.values")
async def values(bench: Bench, case: Case) -> None:
    """Every value of every type is the one that the author expects, to the last digit."""
    del case
    if not bench.declared.expect:
        raise NotApplicableError("`expect` names no file of rows")
    trial = await bench.trial()
    async with bench.world() as world:
        place = bench.grounds.folder / world.fill(bench.declared.expect)
        wanted = [text_of(plain(dict(row))) for row in read_lines(place.read_text("utf-8"))]
        left_out = bench.declared.volatile
        found = [world.neutral(text_of(one.row, left_out)) for one in trial.trace.rows]
    if how := difference(wanted, found):
        raise RuleBrokenError(how)
