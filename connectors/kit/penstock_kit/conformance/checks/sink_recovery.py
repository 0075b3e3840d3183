"""A sink after a crash, under a new owner, or without its host: each row is written once."""

from __future__ import annotations

from penstock.api.connector.v1 import plugin_service_pb2 as plugin_pb
from penstock.api.connector.v1 import sink_service_pb2 as pb
from penstock_kit.conformance.bench import Bench, case
from penstock_kit.conformance.calls import UNKNOWN_FRAME, RefusedError
from penstock_kit.conformance.cases import Case
from penstock_kit.conformance.process import Plugin, stable_resource_count, wait_for_release
from penstock_kit.conformance.results import RuleBrokenError, require
from penstock_kit.conformance.rows import Row
from penstock_kit.conformance.sink_task import PutOptions, token_for
from penstock_kit.conformance.sink_trial import SinkTrial, sink_trial

_TWO_PHASE = plugin_pb.COMMIT_MODE_TWO_PHASE
_SINK = plugin_pb.COMMIT_MODE_SINK
_LOST_HOSTS = 8
_POOL_GROWTH = 6


@case("recover.prepared")
async def prepared(bench: Bench, case: Case) -> None:
    """After a kill between Prepare and Commit, the transaction that the host stored is applied
    once, also when it is recovered twice, and the next transaction follows.
    """
    async with sink_trial(bench) as trial:
        rows, txn = await _write_and_kill(bench, trial, mode=_TWO_PHASE)
        plugin = await bench.shared_plugin()
        await _recover(trial, plugin, txn, 2)
        await trial.expect_rows(plugin, rows, "after a recovery")
        more = {"epoch": 3, "mode": _TWO_PHASE, "last_prepared": txn, "recover": True}
        async with trial.open_task(plugin, **more) as task:
            rows = [*rows, *await trial.write_transaction(task, txn.txn_id + 1)]
            await trial.expect_rows(plugin, rows, "after a second recovery and a transaction")


@case("recover.committed")
async def committed(bench: Bench, case: Case) -> None:
    """After a kill after Commit, a recovery applies the transaction again; no row is doubled."""
    async with sink_trial(bench) as trial:
        rows, txn = await _write_and_kill(bench, trial, commit=True, mode=_TWO_PHASE)
        plugin = await bench.shared_plugin()
        await trial.expect_rows(plugin, rows, "after Commit and a kill")
        await _recover(trial, plugin, txn, 2)
        await trial.expect_rows(plugin, rows, "after a recovery of what was committed")


@case("recover.forgotten")
async def forgotten(bench: Bench, case: Case) -> None:
    """A prepared transaction that no host stored is never applied; its rows come again, once."""
    async with sink_trial(bench) as trial:
        rows, txn = await _write_and_kill(bench, trial, mode=_TWO_PHASE)
        plugin = await bench.shared_plugin()
        async with trial.open_task(plugin, epoch=2, mode=_TWO_PHASE) as task:
            await trial.expect_rows(plugin, [], "after a kill, before anything was stored")
            await trial.prepare_rows(task, txn.txn_id, rows)
            await task.commit(txn.txn_id)
            await trial.expect_rows(plugin, rows, "after the rows came again")


@case("recover.token")
async def last_token(bench: Bench, case: Case) -> None:
    """A sink in mode SINK returns after a crash the token of the last transaction that is
    visible.
    """
    async with sink_trial(bench) as trial:
        rows, _ = await _write_and_kill(bench, trial, commit=True, mode=_SINK)
        plugin = await bench.shared_plugin()
        await trial.expect_rows(plugin, rows, "after Commit and a kill")
        token = await _committed_token(trial, plugin, 2)
        require(token == token_for(1), f"after transaction 1 it returns the token {token!r}")
        _, txn = await _write_and_kill(bench, trial, mode=_SINK, epoch=3, txn_id=2)
        token = await _committed_token(trial, plugin, 4)
        require(token == token_for(1), f"transaction {txn.txn_id} was not committed; {token!r}")
        await trial.expect_rows(plugin, rows, "after Prepare and a kill")


@case("epoch.zombie")
async def zombie(bench: Bench, case: Case) -> None:
    """A late commit of an older process changes nothing that a newer owner has written: every row
    is there once.
    """
    new = await bench.shared_plugin()
    async with sink_trial(bench) as trial, bench.start_plugin() as old:
        modes = bench.spec.sink.commit_modes
        mode = _TWO_PHASE if _TWO_PHASE in modes else _SINK
        rows = trial.next_rows(3)
        async with trial.open_task(old, mode=mode) as older:
            await trial.prepare_rows(older, 1, rows)
            async with trial.open_task(new, epoch=2, mode=mode) as owner:
                await trial.prepare_rows(owner, 1, rows)
                await owner.commit(1)
                try:
                    await older.commit(1)
                except RefusedError as error:
                    require(not error.is_disconnect, "the older process ended instead of refusing")
                await trial.expect_rows(new, rows, "after an older owner committed late")


async def _write_and_kill(
    bench: Bench,
    trial: SinkTrial,
    *,
    mode: int,
    commit: bool = False,
    epoch: int = 1,
    txn_id: int = 1,
) -> tuple[list[Row], pb.PreparedTxn]:
    """Prepare rows, commit them if wanted, kill the process; return the rows and their state."""
    async with (
        bench.start_plugin() as plugin,
        trial.open_task(plugin, mode=mode, epoch=epoch) as task,
    ):
        rows = trial.next_rows(3)
        txn = (await trial.prepare_rows(task, txn_id, rows)).txn
        if commit:
            await task.commit(txn_id)
        await plugin.kill()
    return rows, txn


async def _recover(trial: SinkTrial, plugin: Plugin, txn: pb.PreparedTxn, epoch: int) -> None:
    more = {"epoch": epoch, "mode": _TWO_PHASE, "last_prepared": txn, "recover": True}
    async with trial.open_task(plugin, **more):
        pass


async def _committed_token(trial: SinkTrial, plugin: Plugin, epoch: int) -> bytes:
    async with trial.open_task(plugin, epoch=epoch, mode=_SINK) as task:
        return task.opened.committed.token


@case("epoch.put")
async def put(bench: Bench, case: Case) -> None:
    """A Put with an older epoch than the task's is refused as FENCED."""
    plugin = await bench.shared_plugin()
    async with sink_trial(bench) as trial, trial.open_task(plugin, epoch=2) as task:
        try:
            await task.put([trial.next_rows(1)], trial.rows.schema, PutOptions(1, epoch=1))
        except RefusedError as error:
            require(error.is_fenced, f"it was refused, but not as FENCED: {error}")
        else:
            raise RuleBrokenError("a task of epoch 2 accepted a Put of epoch 1")


@case("epoch.open_write")
async def open_write(bench: Bench, case: Case) -> None:
    """An Open with an older epoch than the task's is refused as FENCED."""
    plugin = await bench.shared_plugin()
    async with sink_trial(bench) as trial, trial.open_task(plugin, epoch=2):
        try:
            async with trial.open_task(plugin, epoch=1):
                pass
        except RefusedError as error:
            require(error.is_fenced, f"it was refused, but not as FENCED: {error}")
        else:
            raise RuleBrokenError("epoch 1 was opened beside epoch 2 of one task")


@case("epoch.takeover_write")
async def takeover_write(bench: Bench, case: Case) -> None:
    """A second Open of a task ends the older stream; the rows put there do not count."""
    plugin = await bench.shared_plugin()
    async with sink_trial(bench) as trial, trial.open_task(plugin) as older:
        await trial.put(older, trial.next_rows(1), PutOptions(1))
        async with trial.open_task(plugin, epoch=2) as newer:
            rows = await trial.write_transaction(newer, 1)
            try:
                require(
                    await older.wait_for_end(case.seconds),
                    f"the older stream went on for {case.seconds:g} s",
                )
            except RefusedError as error:
                require(error.is_fenced, f"the older stream ended, but not as FENCED: {error}")
            await trial.expect_rows(plugin, rows, "after another owner wrote")


@case("tasks.several_write")
async def several_write(bench: Bench, case: Case) -> None:
    """Two tasks in one process write concurrently and independently."""
    plugin = await bench.shared_plugin()
    async with sink_trial(bench) as one, sink_trial(bench) as other:
        async with one.open_task(plugin) as first, other.open_task(plugin) as second:
            rows, others = one.next_rows(2), other.next_rows(3)
            await one.put(first, rows, PutOptions(1))
            await other.put(second, others, PutOptions(1))
            await second.prepare(1, [(0, 0, 3)])
            await first.prepare(1, [(0, 0, 2)])
            await first.commit(1)
            await second.commit(1)
        await one.expect_rows(plugin, rows, "of the first task")
        await other.expect_rows(plugin, others, "of the second task")


@case("frames.unknown_write")
async def unknown_write(bench: Bench, case: Case) -> None:
    """Frames of an unknown kind are ignored on both streams, and the task continues."""
    plugin = await bench.shared_plugin()
    async with sink_trial(bench) as trial, trial.open_task(plugin) as task:
        await task.send_raw(UNKNOWN_FRAME)
        await task.send()
        rows = trial.next_rows(2)
        await trial.put(task, rows, PutOptions(1, unknown=UNKNOWN_FRAME))
        await task.prepare(1, [(0, 0, 2)])
        await task.commit(1)
        await trial.expect_rows(plugin, rows, "after frames of an unknown kind")


@case("close.answered")
async def close(bench: Bench, case: Case) -> None:
    """Close is answered in its grace; what was not prepared leaves no trace."""
    plugin = await bench.shared_plugin()
    async with sink_trial(bench) as trial:
        async with trial.open_task(plugin) as task:
            rows = await trial.write_transaction(task, 1)
            await trial.put(task, trial.next_rows(1), PutOptions(2))
            await task.close(case.seconds)
        await trial.expect_rows(plugin, rows, "after Close")


@case("host.lost_write")
async def lost_write(bench: Bench, case: Case) -> None:
    """A lost host leaves no thread, no open file and no visible row."""
    async with sink_trial(bench) as trial, bench.start_plugin() as plugin:
        for epoch in range(1, _LOST_HOSTS + 1):
            async with trial.open_task(plugin, epoch=epoch) as task:
                await task.put([trial.rows.rows(0, 1)], trial.rows.schema, PutOptions(1))
            if epoch == 1:
                baseline = await stable_resource_count(plugin.pid, case.seconds)
        async with trial.open_task(plugin, epoch=_LOST_HOSTS + 1) as task:
            rows = await trial.write_transaction(task, 1)
            await trial.expect_rows(plugin, rows, "after lost hosts")
        more = await wait_for_release(plugin.pid, baseline + _POOL_GROWTH, case.seconds)
    require(
        not more,
        f"{more + _POOL_GROWTH} more threads and open files after {_LOST_HOSTS} lost hosts",
    )


@case("end.stdin_writing")
async def stdin_writing(bench: Bench, case: Case) -> None:
    """The end of standard input ends the process also while a task is open."""
    async with sink_trial(bench) as trial, bench.start_plugin() as plugin:
        try:
            async with trial.open_task(plugin) as task:
                await trial.put(task, trial.next_rows(1), PutOptions(1))
                plugin.close_stdin()
                await task.wait_for_end(case.seconds)
        except RefusedError:
            pass  # the task ends with the process, in whatever trial
        require(
            await plugin.wait_for_exit(case.seconds),
            f"it ran on for {case.seconds:g} s after the end of its standard input",
        )
