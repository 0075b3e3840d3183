"""What goes wrong around a running job: nothing hangs, no neighbour is harmed, it has a name."""

import asyncio
import threading
import time
from contextlib import suppress

import psutil
import pyarrow as pa
import pytest

from penstock.model.errors import PenstockError, RetriableError
from penstock.model.step import Step
from penstock.spark import lane_loop, lanes
from tests.unit.spark.tiny_plugin import SCHEMA, answered, rows, until

UPPER = Step(where="id >= 0", select=(("id", "id"), ("name", "upper(name)")))
LANES = pytest.mark.parametrize("steps", [[], [UPPER]], ids=["fused", "jvm"])


async def outcome(run):
    """The diagnostic of a run, whether it was reported or raised."""
    try:
        return (await run)[0].error
    except PenstockError as error:
        return error.diagnostic


def is_daemon(process: psutil.Process) -> bool:
    """Whether a process is the one that forks Python workers, or a fork of it."""
    try:
        return "penstock.spark.worker_daemon" in process.cmdline()
    except psutil.Error:
        return False  # it ended while we looked


def workers() -> list[psutil.Process]:
    """The forks of the daemon, without the daemon itself."""
    family = [p for p in psutil.Process().children(recursive=True) if is_daemon(p)]
    pids = {process.pid for process in family}
    return [process for process in family if parent_of(process) in pids]


def parent_of(process: psutil.Process) -> int:
    """Its parent; 0 when it has ended."""
    try:
        return process.ppid()
    except psutil.NoSuchProcess:
        return 0


def kill(processes: list[psutil.Process]) -> None:
    """Kill them; one of an earlier job may end while we look, and is dead anyway."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()


@LANES
def test_a_killed_python_worker_fails_the_job_and_not_the_session(loop, engine, plugin, steps):
    """The next run works, under new attempts: rows of the lost one do not count."""
    plan = engine.build("t", SCHEMA, steps, 1)
    plugin.block.clear()

    async def killed():
        job = asyncio.ensure_future(engine.run(plan, plugin.ticket("killed", [[1, 2]])))
        await until(lambda: plugin.open_fetches, "the fetch")
        kill(workers())
        with pytest.raises(RetriableError) as caught:
            await job
        assert caught.value.code == "engine.job_failed"
        plugin.block.set()
        first = set(plugin.put)
        reports = await engine.run(plan, plugin.ticket("killed", [[1, 2]]))
        return first, reports

    first, reports = loop.run_until_complete(killed())
    assert [row["id"] for row in plugin.rows(1, reports)] == list(range(1000, 3000))
    assert (1, 0, reports[0].attempt) not in first


def test_a_stopped_python_worker_is_given_up_and_ended(loop, engine, plugin, monkeypatch):
    """It answers nobody and reads nothing, so only its silence shows, and only SIGKILL ends it."""
    monkeypatch.setattr(lanes, "SILENCE_S", 3 * lane_loop.HEARTBEAT_S)
    plan = engine.build("t", SCHEMA, [], 1)
    plugin.block.clear()

    async def stopped():
        job = asyncio.ensure_future(engine.run(plan, plugin.ticket("stopped", [[1, 2]])))
        await until(lambda: plugin.open_fetches, "the fetch")
        there = workers()
        for process in there:
            process.suspend()
        with pytest.raises(RetriableError, match=r"engine\.lane") as caught:
            await job
        assert caught.value.code == "deadline.exceeded"
        monkeypatch.undo()
        await until(lambda: not all(p.is_running() for p in there), "the end of the process")
        for process in there:
            with suppress(psutil.NoSuchProcess):
                process.resume()
        plugin.block.set()
        return await engine.run(plan, plugin.ticket("stopped", [[1, 2]]))

    reports = loop.run_until_complete(stopped())
    assert [row["id"] for row in plugin.rows(1, reports)] == list(range(1000, 3000))


def test_attempts_differ_from_run_to_run(loop, engine, plugin):
    plan = engine.build("t", SCHEMA, [], 2)
    attempts = [
        report.attempt
        for _ in range(3)
        for report in loop.run_until_complete(engine.run(plan, plugin.ticket("t", [[1], [2]])))
    ]
    assert len(set(attempts)) == 6


@LANES
@pytest.mark.parametrize("end", ["block", "block_put"])
@pytest.mark.parametrize("how", ["engine", "caller"])
@pytest.mark.timed("a cancel within 2 s is an invariant")
def test_a_blocked_plugin_is_cancelled_within_two_seconds(loop, engine, plugin, steps, end, how):
    """At either end, by the task's id or by the coroutine; then the slot is free again."""
    getattr(plugin, end).clear()
    plan = engine.build("t", SCHEMA, steps, 1)

    async def cancelled() -> float:
        job = asyncio.ensure_future(engine.run(plan, plugin.ticket("blocked", [[1]])))
        await until(lambda: plugin.put if end == "block_put" else plugin.fetches, "the job")
        began = time.monotonic()
        if how == "engine":
            engine.cancel("blocked")
            with pytest.raises(RetriableError) as caught:
                await job
            assert caught.value.code == "engine.cancelled"
        else:
            job.cancel()
            with pytest.raises(asyncio.CancelledError):
                await job
        return time.monotonic() - began

    assert loop.run_until_complete(cancelled()) < 2.0
    getattr(plugin, end).set()
    reports = loop.run_until_complete(engine.run(plan, plugin.ticket("after", [[2]], txn_id=2)))
    assert reports[0].rows_out == 1000


def test_a_cancel_that_comes_before_spark_knows_the_job_is_not_lost(loop, engine, plugin):
    plan = engine.build("t", SCHEMA, [], 1)
    plugin.block.clear()

    async def cancelled() -> None:
        for txn in range(10):
            job = asyncio.ensure_future(engine.run(plan, plugin.ticket("early", [[1]], txn_id=txn)))
            await until(lambda: engine.statistics()["running"], "the job")
            engine.cancel("early")
            async with asyncio.timeout(60):
                with pytest.raises(RetriableError):
                    await job

    loop.run_until_complete(cancelled())


@LANES
def test_a_cancel_reaches_what_waits_and_no_other_task(loop, engine, plugin, steps):
    plan = engine.build("t", SCHEMA, steps, 1)
    most = engine.slots + 1 if steps else engine._settings.most_lanes
    plugin.block.clear()

    async def cancelled():
        start = lambda n, task: asyncio.ensure_future(  # noqa: E731 - short, and only here
            engine.run(plan, plugin.ticket(task, [[1]], txn_id=n))
        )
        others = [start(n, "other") for n in range(most)]
        await until(lambda: engine.statistics()["running"] == most, "the others")
        waits = start(100, "waits")
        await until(lambda: engine.statistics()["waiting"], "the queue")
        engine.cancel("waits")
        with pytest.raises(RetriableError) as caught:
            await waits
        assert caught.value.code == "engine.cancelled"
        plugin.block.set()
        return await asyncio.gather(*others)

    assert all(reports[0].rows_out == 1000 for reports in loop.run_until_complete(cancelled()))


@LANES
@pytest.mark.parametrize(("end", "stage"), [("block", "plugin.fetch"), ("block_put", "plugin.put")])
def test_an_end_that_stalls_is_cut_off_and_its_stage_named(loop, engine, plugin, steps, end, stage):
    getattr(plugin, end).clear()
    plan = engine.build("t", SCHEMA, steps, 1)
    ticket = plugin.ticket("stalls", [[1]], stall_timeout_s=0.5)
    found = loop.run_until_complete(outcome(engine.run(plan, ticket)))
    assert found.code == "deadline.exceeded"
    assert stage in found.message


@LANES
def test_a_slow_sink_is_no_stall_of_the_source(loop, engine, plugin, steps):
    """The source waits longer than the deadline for the sink to take rows: nobody hangs."""
    for seq in range(1, 13):
        batch = rows(seq, 100)
        names = pa.array([f"{seq}" + "x" * 20_000] * 100)
        plugin.batches[seq] = batch.set_column(1, "name", names)
    pause = threading.Event()

    def slowly(batch):
        pause.wait(0.5)
        return answered(batch, [])

    plugin.answer = slowly
    plan = engine.build("t", SCHEMA, steps, 1)
    ticket = plugin.ticket("slow", [list(range(1, 13))], stall_timeout_s=5.0)
    report = loop.run_until_complete(engine.run(plan, ticket))[0]
    assert report.error is None
    assert report.rows_out == 1200


@LANES
def test_a_sink_that_breaks_off_is_reported_with_its_code(loop, engine, plugin, steps):
    """In the middle of many rows: what is left of them does not drown the reason."""
    plugin.batches = {seq: rows(seq * 100_000, 100_000) for seq in range(1, 9)}
    plugin.answer = lambda batch: answered(batch, []) if batch.seq < 3 else None
    plugin.answer = lambda batch: answered(batch, [200_000] if batch.seq == 3 else [])
    plan = engine.build("t", SCHEMA, steps, 1)
    for txn in range(3):
        ticket = plugin.ticket("breaks", [list(range(1, 9))], txn_id=txn)
        reports = loop.run_until_complete(engine.run(plan, ticket))
        assert reports[0].error.code == "plugin.protocol.result_rows"
    loop.run_until_complete(until(lambda: not plugin.open_fetches, "the fetch to be let go"))


@LANES
def test_a_plugin_that_is_gone_is_a_retriable_error(loop, engine, plugin, steps):
    plan = engine.build("t", SCHEMA, steps, 1)
    ticket = plugin.ticket("gone", [[1]])
    plugin.stop()
    found = loop.run_until_complete(outcome(engine.run(plan, ticket)))
    assert found.code == "rpc.unavailable"
    assert "plugin.fetch" in found.message


@LANES
def test_a_call_without_the_credential_is_refused(loop, engine, plugin, steps):
    plan = engine.build("t", SCHEMA, steps, 1)
    ticket = plugin.ticket("thief", [[1]])
    ticket.slots[0].read["credential"] = "stolen"
    found = loop.run_until_complete(outcome(engine.run(plan, ticket)))
    assert found.code == "rpc.unauthenticated"


def test_jobs_leave_no_threads_behind(loop, engine, plugin):
    plan = engine.build("t", SCHEMA, [], 1)
    ticket = plugin.ticket("threads", [[1]])
    loop.run_until_complete(engine.run(plan, ticket))
    before = threading.active_count()
    for _ in range(8):
        loop.run_until_complete(engine.run(plan, ticket))
    assert threading.active_count() <= before + engine.slots + 1
