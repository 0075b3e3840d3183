"""Rows, schemas and transactions of a sink: results, visibility, refused input."""

from __future__ import annotations

import pyarrow as pa

from penstock.api.connector.v1 import plugin_service_pb2 as plugin_pb
from penstock.api.connector.v1 import sink_service_pb2 as pb
from penstock.api.error.v1 import diagnostic_pb2
from penstock_kit.conformance.bench import Bench, case
from penstock_kit.conformance.calls import RefusedError
from penstock_kit.conformance.cases import Case
from penstock_kit.conformance.results import NotApplicableError, RuleBrokenError, require
from penstock_kit.conformance.sink_task import PutOptions, WriteOptions, open_sink, token_for
from penstock_kit.conformance.sink_trial import sink_trial

_BIG_ROW_BYTES = 64 << 20
_MAX_STATE_BYTES = 64 << 10


@case("open.mode")
async def mode(bench: Bench, case: Case) -> None:
    """A described commit mode is in force when it is requested; no other mode ever is."""
    plugin = await bench.shared_plugin()
    has = list(bench.spec.sink.commit_modes)
    for mode in plugin_pb.CommitMode.values():
        if mode == plugin_pb.COMMIT_MODE_UNSPECIFIED:
            continue
        name = plugin_pb.CommitMode.Name(mode)
        async with bench.new_sandbox() as sandbox:
            try:
                options = WriteOptions(task_id=bench.task_id(), mode=mode)
                async with open_sink(plugin, sandbox, options) as task:
                    in_force = task.opened.commit_mode
            except RefusedError as error:
                require(mode not in has, f"{name} is described, and refused: {error}")
                continue
        if mode in has:
            require(in_force == mode, f"{name} is described; {in_force} is in force on request")
        require(in_force in has, f"{in_force} is in force for {name}, and not described")


@case("open.refused")
async def refused(bench: Bench, case: Case) -> None:
    """A task with an invalid configuration is refused with a diagnostic."""
    plugin = await bench.shared_plugin()
    key = "conformance.no.such.key"
    async with bench.new_sandbox() as sandbox:
        try:
            async with open_sink(plugin, sandbox, WriteOptions(bench.task_id()), **{key: "1"}):
                pass
        except RefusedError as error:
            config_class = diagnostic_pb2.ERROR_CLASS_CONFIG
            require(error.diagnostic.code, f"the refusal has no diagnostic: {error}")
            require(
                error.diagnostic.error_class == config_class, f"its class is not CONFIG: {error}"
            )
            return
    raise RuleBrokenError("a task was opened with an unknown key")


@case("put.results")
async def results(bench: Bench, case: Case) -> None:
    """Every batch gets exactly one result, in order: all rows accepted, or the failed ones."""
    plugin = await bench.shared_plugin()
    async with sink_trial(bench) as trial, trial.open_task(plugin) as task:
        batches = [trial.next_rows(2) for _ in range(3)]
        answers = await task.put(batches, trial.rows.schema, PutOptions(1))
    require([one.seq for one in answers] == [1, 2, 3],
            f"3 batches got results for {[one.seq for one in answers]}")  # fmt: skip
    for one in answers:
        require(one.all_ok or one.failed, f"the result of batch {one.seq} is neither ok nor failed")
        require(not (one.all_ok and one.failed), f"the result of batch {one.seq} is both")


@case("put.empty")
async def empty(bench: Bench, case: Case) -> None:
    """A batch without rows gets a result like any other."""
    plugin = await bench.shared_plugin()
    async with sink_trial(bench) as trial, trial.open_task(plugin) as task:
        rows = trial.next_rows(2)
        answers = await task.put([[], rows], trial.rows.schema, PutOptions(1))
        require([one.seq for one in answers] == [1, 2], f"{len(answers)} results to 2 batches")
        await task.prepare(1, [(0, 0, len(rows))])
        await task.commit(1)
        await trial.expect_rows(plugin, rows, "after a batch without rows")


@case("put.gap")
async def gap(bench: Bench, case: Case) -> None:
    """A batch that does not follow the one before it is refused: one between them is lost."""
    plugin = await bench.shared_plugin()
    async with sink_trial(bench) as trial, trial.open_task(plugin) as task:
        try:
            answers = await task.put(
                [trial.next_rows(2)], trial.rows.schema, PutOptions(1, first_seq=2)
            )
        except RefusedError as error:
            require(not error.is_disconnect, "the process ended over a batch out of sequence")
            return
        require(not any(one.all_ok for one in answers), "batch 2 was accepted without batch 1")


@case("put.chunked")
async def chunked(bench: Bench, case: Case) -> None:
    """The chunks of a batch are joined, and the batch has one result."""
    plugin = await bench.shared_plugin()
    async with sink_trial(bench) as trial, trial.open_task(plugin) as task:
        rows = trial.next_rows(4)
        await trial.put(task, rows, PutOptions(1, chunk_bytes=64))
        await task.prepare(1, [(0, 0, len(rows))])
        await task.commit(1)
        await trial.expect_rows(plugin, rows, "after a batch in chunks")


@case("put.memory_files")
async def in_memory_files(bench: Bench, case: Case) -> None:
    """Rows of batches in memory files, which are closed at the results, are written."""
    plugin = await bench.shared_plugin()
    if not await plugin.shares_memory():
        raise NotApplicableError("it shows no memory file")
    async with sink_trial(bench) as trial, trial.open_task(plugin) as task:
        rows = trial.next_rows(4)
        options = PutOptions(1, in_memory_files=True)
        answers = await task.put([rows[:2], rows[2:]], trial.rows.schema, options)
        require(all(one.all_ok for one in answers), "rows in a memory file were not accepted")
        await task.prepare(1, [(0, 0, len(rows))])
        await task.commit(1)
        await trial.expect_rows(plugin, rows, "after batches in memory files")


@case("put.big_row")
async def big_row(bench: Bench, case: Case) -> None:
    """A row of 64 MiB is written whole, or refused with a code; it is never cut."""
    plugin = await bench.shared_plugin()
    async with sink_trial(bench) as trial, trial.open_task(plugin) as task:
        texts = [f.name for f in trial.rows.schema if f.type == pa.string()]
        if not trial.rows.is_generated or not set(texts) - set(trial.rows.keys):
            raise NotApplicableError("it has no text column of any size")
        name = next(one for one in texts if one not in trial.rows.keys)
        rows = [{**trial.next_rows(1)[0], name: "x" * _BIG_ROW_BYTES}]
        try:
            answers = await task.put([rows], trial.rows.schema, PutOptions(1))
            require(len(answers) == 1, f"{len(answers)} results to one batch")
            if not answers[0].all_ok:
                require(answers[0].failed[0].reason.code, "the row was refused without a code")
                return
            await task.prepare(1, [(0, 0, 1)])
            await task.commit(1)
        except RefusedError as error:
            require(error.diagnostic.code, f"the row was refused without a code: {error}")
            return
        await trial.expect_rows(plugin, rows, "after a row of 64 MiB")


@case("put.partial")
async def partial(bench: Bench, case: Case) -> None:
    """A row that cannot be written is named in the result; the other rows are written."""
    if not bench.declaration.bad_row:
        raise NotApplicableError("`bad_row` is not declared")
    plugin = await bench.shared_plugin()
    async with sink_trial(bench) as trial, trial.open_task(plugin) as task:
        writable = trial.next_rows(2)
        rows = [writable[0], {**trial.next_rows(1)[0], **bench.declaration.bad_row}, writable[1]]
        answers = await task.put([rows], trial.rows.schema, PutOptions(1))
        require(len(answers) == 1, f"{len(answers)} results to one batch")
        failed = [one.row for one in answers[0].failed]
        require(failed == [1], f"row 1 cannot be written; the result names {failed}")
        require(answers[0].failed[0].reason.code, "the failed row has no code")
        await task.prepare(1, [(0, 0, 2)])
        await task.commit(1)
        await trial.expect_rows(plugin, writable, "after a row that cannot be written")


@case("schema.unknown")
async def unknown(bench: Bench, case: Case) -> None:
    """Rows of a schema that was not sent are refused; the process keeps running."""
    plugin = await bench.shared_plugin()
    async with sink_trial(bench) as trial, trial.open_task(plugin) as task:
        try:
            answers = await task.put(
                [trial.next_rows(1)], trial.rows.schema, PutOptions(1, schema_id=77)
            )
        except RefusedError as error:
            require(not error.is_disconnect, "the process ended over rows of an unknown schema")
            return
        require(not any(one.all_ok for one in answers), "rows of an unknown schema were accepted")


@case("schema.grows")
async def grows(bench: Bench, case: Case) -> None:
    """Rows with one more column are accepted, or their schema is refused with a reason. The task
    continues in both cases.
    """
    plugin = await bench.shared_plugin()
    async with sink_trial(bench) as trial, trial.open_task(plugin) as task:
        if not trial.rows.is_generated:
            raise NotApplicableError("its rows come from a file")
        before = await trial.write_transaction(task, 1)
        schema = trial.rows.schema.append(pa.field("one_more", pa.int64()))
        applied = await task.send_schema(schema, trial.dataset, trial.rows.keys, 2)
        require(applied.schema_id == 2, f"schema 2 is answered as schema {applied.schema_id}")
        if applied.refused:
            require(applied.diagnostics, "the schema is refused without a reason")
            return
        rows = [{**row, "one_more": 7} for row in trial.next_rows(2)]
        answers = await task.put([rows], schema, PutOptions(2, schema_id=2))
        require([one.all_ok for one in answers] == [True], "rows of the new schema were refused")
        await task.prepare(2, [(0, 0, len(rows))])
        await task.commit(2)
        await trial.expect_rows(plugin, [*before, *rows], "after a new column")


@case("columns.answered")
async def columns_answered(bench: Bench, case: Case) -> None:
    """A sink with `describes_datasets` reports the columns of a dataset that it has written."""
    plugin = await bench.shared_plugin()
    async with sink_trial(bench) as trial, trial.open_task(plugin) as task:
        if not task.opened.describes_datasets:
            raise NotApplicableError("it does not report columns")
        rows = await trial.write_transaction(task, 1)
        await task.send(describe=pb.DescribeDataset(dataset=trial.dataset, request_id=5))
        answer = (await task.until("described")).described
        require(answer.request_id == 5, f"request 5 is answered as {answer.request_id}")
        require(answer.arrow_schema, "it has written rows, and reports no columns")
        names = set(pa.ipc.read_schema(pa.py_buffer(answer.arrow_schema)).names)
        missing = set(rows[0]) - names
        require(not missing, f"written columns are not reported: {sorted(missing)}")


@case("commit.visible")
async def visible(bench: Bench, case: Case) -> None:
    """The rows of each committed transaction are visible, once."""
    plugin = await bench.shared_plugin()
    async with sink_trial(bench) as trial, trial.open_task(plugin) as task:
        rows = []
        for txn_id in (1, 2, 3):
            new = trial.next_rows(2)
            await trial.prepare_rows(task, txn_id, new)
            done = await task.commit(txn_id)
            require(done.txn_id == txn_id, f"commit {txn_id} is answered as {done.txn_id}")
            rows += new
            await trial.expect_rows(plugin, rows, f"after transaction {txn_id}")


@case("commit.values")
async def values(bench: Bench, case: Case) -> None:
    """Values of every type are written exactly, to the last digit."""
    plugin = await bench.shared_plugin()
    async with sink_trial(bench) as trial, trial.open_task(plugin) as task:
        if not trial.rows.is_generated:
            raise NotApplicableError("its rows come from a file")
        rows = trial.rows.edge_rows()
        await trial.prepare_rows(task, 1, rows)
        await task.commit(1)
        await trial.expect_rows(plugin, rows, "after rows with edge values")


@case("commit.order")
async def order(bench: Bench, case: Case) -> None:
    """Rows of a transaction are in the order of their slots, not of their arrival."""
    if not bench.declaration.ordered:
        raise NotApplicableError("`ordered` is not declared")
    plugin = await bench.shared_plugin()
    async with sink_trial(bench) as trial, trial.open_task(plugin) as task:
        first, second = trial.next_rows(2), trial.next_rows(2)
        await trial.put(task, second, PutOptions(1, slot=1))
        await trial.put(task, first, PutOptions(1, slot=0))
        await task.prepare(1, [(0, 0, 2), (1, 0, 2)])
        await task.commit(1)
        await trial.expect_rows(plugin, [*first, *second], "after slot 1 came before slot 0")


@case("prepare.invisible")
async def invisible(bench: Bench, case: Case) -> None:
    """No row is visible before Commit."""
    plugin = await bench.shared_plugin()
    async with sink_trial(bench) as trial, trial.open_task(plugin) as task:
        rows = trial.next_rows(2)
        await trial.put(task, rows, PutOptions(1))
        await trial.expect_rows(plugin, [], "after Put")
        await task.prepare(1, [(0, 0, len(rows))])
        await trial.expect_rows(plugin, [], "after Prepare")
        await task.commit(1)
        await trial.expect_rows(plugin, rows, "after Commit")


@case("prepare.state")
async def state(bench: Bench, case: Case) -> None:
    """Prepared names the transaction, its epoch and token, with state of 64 KiB at most."""
    plugin = await bench.shared_plugin()
    async with sink_trial(bench) as trial, trial.open_task(plugin, epoch=3) as task:
        txn = (await trial.prepare_rows(task, 1, trial.next_rows(2))).txn
    require(txn.txn_id == 1, f"transaction 1 is answered as {txn.txn_id}")
    require(txn.epoch == 3, f"epoch 3 is answered as {txn.epoch}")
    require(txn.token == token_for(1), f"token {token_for(1)!r} is answered as {txn.token!r}")
    require(len(txn.state) <= _MAX_STATE_BYTES, f"its state has {len(txn.state)} bytes")


@case("prepare.attempts")
async def attempts(bench: Bench, case: Case) -> None:
    """Of a slot that was put twice the named attempt counts."""
    plugin = await bench.shared_plugin()
    async with sink_trial(bench) as trial, trial.open_task(plugin) as task:
        rows, other = trial.next_rows(2), trial.next_rows(1)
        await trial.put(task, [*rows, *other], PutOptions(1, attempt=0))
        await trial.put(task, rows, PutOptions(1, attempt=1))
        await task.prepare(1, [(0, 1, len(rows))])
        await task.commit(1)
        await trial.expect_rows(plugin, rows, "after attempt 1 of a slot was named")


@case("prepare.counts")
async def counts(bench: Bench, case: Case) -> None:
    """A slot with another number of rows than the host's is refused, and stays invisible."""
    plugin = await bench.shared_plugin()
    async with sink_trial(bench) as trial:
        async with trial.open_task(plugin) as task:
            await trial.put(task, trial.next_rows(2), PutOptions(1))
            try:
                await task.prepare(1, [(0, 0, 3)])
            except RefusedError as error:
                require(not error.is_disconnect, "the process ended over a wrong count")
            else:
                raise RuleBrokenError("it prepared 3 named rows of 2 that were put")
        await trial.expect_rows(plugin, [], "after a wrong count")


@case("prepare.missing")
async def missing(bench: Bench, case: Case) -> None:
    """A slot that was never put is refused; it does not count as empty."""
    plugin = await bench.shared_plugin()
    async with sink_trial(bench) as trial, trial.open_task(plugin) as task:
        await trial.put(task, trial.next_rows(2), PutOptions(1))
        try:
            await task.prepare(1, [(0, 0, 2), (1, 0, 2)])
        except RefusedError as error:
            require(not error.is_disconnect, "the process ended over a missing slot")
            return
    raise RuleBrokenError("it prepared slot 1, which was never put")


@case("replay.harmless")
async def replay(bench: Bench, case: Case) -> None:
    """An idempotent sink accepts keyed rows again, and they are visible once."""
    plugin = await bench.shared_plugin()
    mode = plugin_pb.COMMIT_MODE_IDEMPOTENT
    async with sink_trial(bench) as trial:
        rows = trial.next_rows(3)
        for epoch in (1, 2):
            async with trial.open_task(plugin, epoch=epoch, mode=mode) as task:
                await trial.prepare_rows(task, epoch, rows)
                await task.commit(epoch)
        await trial.expect_rows(plugin, rows, "after the same rows were written twice")
