"""What a sink answers to rows and schemas."""

from __future__ import annotations

import pyarrow as pa

from penstock.api.connector.v1 import plugin_service_pb2 as plugin_pb
from penstock.api.connector.v1 import sink_service_pb2 as pb
from penstock.api.error.v1 import diagnostic_pb2
from penstock.conformance.bench import Bench
from penstock.conformance.calls import RefusedError
from penstock.conformance.cases import Case
from penstock.conformance.checks.register import case
from penstock.conformance.moving import trip
from penstock.conformance.verdict import NotApplicableError, RuleBrokenError, require
from penstock.conformance.writing import Put, WriteOrder, writing

_BIG = 64 << 20


@case("open.mode")
async def mode(bench: Bench, case: Case) -> None:
    """A mode that it has is in force when it is asked for; one that it lacks is never claimed."""
    del case
    plugin = await bench.plugin()
    has = list(bench.spec.sink.commit_modes)
    for mode in plugin_pb.CommitMode.values():
        if mode == plugin_pb.COMMIT_MODE_UNSPECIFIED:
            continue
        name = plugin_pb.CommitMode.Name(mode)
        async with bench.own_world() as world:
            try:
                order = WriteOrder(task_id=bench.task_id(), mode=mode)
                async with writing(plugin, world, order) as task:
                    told = task.opened.commit_mode
            except RefusedError as error:
                require(mode not in has, f"{name} is described, and refused: {error}")
                continue
        if mode in has:
            require(told == mode, f"{name} is described; {told} is in force when it is asked for")
        require(told in has, f"{told} is in force when {name} is asked for, not described")


@case("open.refused")
async def refused(bench: Bench, case: Case) -> None:
    """A task of a configuration that is not in order is refused with a diagnostic."""
    del case
    plugin = await bench.plugin()
    key = "conformance.no.such.key"
    async with bench.own_world() as world:
        try:
            async with writing(plugin, world, WriteOrder(bench.task_id()), **{key: "1"}):
                pass
        except RefusedError as error:
            wanted = diagnostic_pb2.ERROR_CLASS_CONFIG
            require(error.diagnostic.code, f"the refusal has no diagnostic: {error}")
            require(error.diagnostic.error_class == wanted, f"its class is not CONFIG: {error}")
            return
    raise RuleBrokenError("a task was opened with a key that there is not")


@case("put.results")
async def results(bench: Bench, case: Case) -> None:
    """Every batch gets exactly one result, in order: all rows taken, or which were not."""
    del case
    plugin = await bench.plugin()
    async with trip(bench) as way, way.life(plugin) as task:
        batches = [way.next_rows(2) for _ in range(3)]
        answers = await task.put(batches, way.rows.schema, Put(1))
    require([one.seq for one in answers] == [1, 2, 3],
            f"3 batches were answered by results for {[one.seq for one in answers]}")  # fmt: skip
    for one in answers:
        require(one.all_ok or one.failed, f"the result of batch {one.seq} is neither ok nor failed")
        require(not (one.all_ok and one.failed), f"the result of batch {one.seq} is both")


@case("put.empty")
async def empty(bench: Bench, case: Case) -> None:
    """A batch without rows is answered like any other."""
    del case
    plugin = await bench.plugin()
    async with trip(bench) as way, way.life(plugin) as task:
        rows = way.next_rows(2)
        answers = await task.put([[], rows], way.rows.schema, Put(1))
        require([one.seq for one in answers] == [1, 2], f"{len(answers)} results to 2 batches")
        await task.prepare(1, [(0, 0, len(rows))])
        await task.commit(1)
        await way.expect(plugin, rows, "after a batch without rows")


@case("put.gap")
async def gap(bench: Bench, case: Case) -> None:
    """A batch that does not follow the one before it is refused: one in between was lost."""
    del case
    plugin = await bench.plugin()
    async with trip(bench) as way, way.life(plugin) as task:
        try:
            answers = await task.put([way.next_rows(2)], way.rows.schema, Put(1, first_seq=2))
        except RefusedError as error:
            require(not error.lost, "the process ended over a batch that was out of order")
            return
        require(not any(one.all_ok for one in answers), "batch 2 was taken without batch 1")


@case("put.chunked")
async def chunked(bench: Bench, case: Case) -> None:
    """Chunks of a batch are put together; the batch has one result."""
    del case
    plugin = await bench.plugin()
    async with trip(bench) as way, way.life(plugin) as task:
        rows = way.next_rows(4)
        await way.put(task, rows, Put(1, chunk_bytes=64))
        await task.prepare(1, [(0, 0, len(rows))])
        await task.commit(1)
        await way.expect(plugin, rows, "after a batch in chunks")


@case("put.big_row")
async def big_row(bench: Bench, case: Case) -> None:
    """A row of 64 MiB arrives whole, or is refused with a code; nothing is cut."""
    del case
    plugin = await bench.plugin()
    async with trip(bench) as way, way.life(plugin) as task:
        texts = [f.name for f in way.rows.schema if f.type == pa.string()]
        if not way.rows.made or not set(texts) - set(way.rows.keys):
            raise NotApplicableError("it takes no text that may be of any size")
        name = next(one for one in texts if one not in way.rows.keys)
        rows = [{**way.next_rows(1)[0], name: "x" * _BIG}]
        try:
            answers = await task.put([rows], way.rows.schema, Put(1))
            require(len(answers) == 1, f"{len(answers)} results to one batch")
            if not answers[0].all_ok:
                require(answers[0].failed[0].reason.code, "the row was refused without a code")
                return
            await task.prepare(1, [(0, 0, 1)])
            await task.commit(1)
        except RefusedError as error:
            require(error.diagnostic.code, f"the row was refused without a code: {error}")
            return
        await way.expect(plugin, rows, "after a row of 64 MiB")


@case("put.partial")
async def partial(bench: Bench, case: Case) -> None:
    """A bad row among good ones is named, and the good ones are written."""
    del case
    if not bench.declared.bad_row:
        raise NotApplicableError("`bad_row` declares none")
    plugin = await bench.plugin()
    async with trip(bench) as way, way.life(plugin) as task:
        good = way.next_rows(2)
        rows = [good[0], {**way.next_rows(1)[0], **bench.declared.bad_row}, good[1]]
        answers = await task.put([rows], way.rows.schema, Put(1))
        require(len(answers) == 1, f"{len(answers)} results to one batch")
        failed = [one.row for one in answers[0].failed]
        require(failed == [1], f"row 1 is bad; the result names {failed}")
        require(answers[0].failed[0].reason.code, "the bad row has no code")
        await task.prepare(1, [(0, 0, 2)])
        await task.commit(1)
        await way.expect(plugin, good, "after a bad row among good ones")


@case("schema.unknown")
async def unknown(bench: Bench, case: Case) -> None:
    """Rows of a schema that was not sent are refused; the process lives on."""
    del case
    plugin = await bench.plugin()
    async with trip(bench) as way, way.life(plugin) as task:
        try:
            answers = await task.put([way.next_rows(1)], way.rows.schema, Put(1, schema_id=77))
        except RefusedError as error:
            require(not error.lost, "the process ended over rows of an unknown schema")
            return
        require(not any(one.all_ok for one in answers), "rows of an unknown schema were taken")


@case("schema.grows")
async def grows(bench: Bench, case: Case) -> None:
    """Rows with one more column are taken from then on, or their schema is refused with a reason:
    the task goes on either way.
    """
    del case
    plugin = await bench.plugin()
    async with trip(bench) as way, way.life(plugin) as task:
        if not way.rows.made:
            raise NotApplicableError("its rows come from a file")
        before = await way.transact(task, 1)
        schema = way.rows.schema.append(pa.field("one_more", pa.int64()))
        applied = await task.schema(schema, way.dataset, way.rows.keys, 2)
        require(applied.schema_id == 2, f"schema 2 is answered by schema {applied.schema_id}")
        if applied.refused:
            require(applied.diagnostics, "the schema is refused without a reason")
            return
        rows = [{**row, "one_more": 7} for row in way.next_rows(2)]
        answers = await task.put([rows], schema, Put(2, schema_id=2))
        require([one.all_ok for one in answers] == [True], "rows of the new schema were refused")
        await task.prepare(2, [(0, 0, len(rows))])
        await task.commit(2)
        await way.expect(plugin, [*before, *rows], "after a column came")


@case("look.answered")
async def looked(bench: Bench, case: Case) -> None:
    """A sink that says so tells the columns of a place, and of none that there is none."""
    del case
    plugin = await bench.plugin()
    async with trip(bench) as way, way.life(plugin) as task:
        if not task.opened.looks:
            raise NotApplicableError("it does not tell columns")
        rows = await way.transact(task, 1)
        await task.send(look=pb.WriteLook(dataset=way.dataset, request_id=5))
        answer = (await task.until("looked")).looked
        require(answer.request_id == 5, f"request 5 is answered as {answer.request_id}")
        require(answer.arrow_schema, "there are rows, and it tells no columns")
        names = set(pa.ipc.read_schema(pa.py_buffer(answer.arrow_schema)).names)
        missing = set(rows[0]) - names
        require(not missing, f"columns that were written are not told: {sorted(missing)}")
