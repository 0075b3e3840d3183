"""Micro-batches through a real Spark session, with gRPC at both ends."""

import asyncio
import os
import signal
import threading
import time

import psutil
import pyarrow as pa
import pytest

from penstock.model.errors import ConfigError, DataError, PenstockError, RetriableError
from penstock.model.step import Step
from penstock.spark.engine import Engine
from penstock.spark.settings import EngineSettings
from tests.unit.spark.tiny_plugin import TinyPlugin

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
UPPER = Step(where="id % 10 <> 7", select=(("id", "id"), ("name", "upper(name)")))


def rows(start: int, count: int) -> pa.RecordBatch:
    ids = range(start, start + count)
    return pa.RecordBatch.from_arrays(
        [pa.array(ids, pa.int64()), pa.array([f"n{i}" for i in ids])], schema=SCHEMA
    )


@pytest.fixture(scope="module")
def loop():
    """One event loop for the module: the engine lives on it."""
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture(scope="module")
def engine(loop, tmp_path_factory):
    """A warm engine with two slots."""
    settings = EngineSettings(
        master="local[2,1]", slots=2, local_dir=tmp_path_factory.mktemp("spark")
    )
    engine = Engine(settings)
    loop.run_until_complete(engine.start())
    yield engine
    loop.run_until_complete(engine.stop())


@pytest.fixture
def plugin(tmp_path):
    """A source with four batches of a thousand rows, which is a sink too."""
    plugin = TinyPlugin(tmp_path)
    plugin.schema = SCHEMA
    for seq in range(1, 5):
        plugin.batches[seq] = rows(seq * 1000, 1000)
    yield plugin
    plugin.stop()


@pytest.mark.parametrize("steps", [[], [UPPER]], ids=["fused", "jvm"])
def test_rows_arrive_once_and_in_order(loop, engine, plugin, steps):
    plan = engine.build("t", SCHEMA, steps, 2)
    ticket = plugin.ticket("order", [[1, 2], [3, 4]], SCHEMA)
    reports = loop.run_until_complete(engine.run(plan, ticket))
    assert [r.error for r in reports] == [None, None]
    got = plugin.rows(1, reports)
    expected = [r for s in range(1, 5) for r in plugin.batches[s].to_pylist()]
    if steps:
        expected = [
            {"id": r["id"], "name": r["name"].upper()} for r in expected if r["id"] % 10 != 7
        ]
    assert got == expected
    assert sum(r.rows_out for r in reports) == len(expected)
    assert sum(r.rows_in for r in reports) == 4000


def test_a_plan_is_analysed_once_and_each_batch_brings_its_ticket(loop, engine, plugin):
    plan = engine.build("t", SCHEMA, [UPPER], 1)
    before = engine.statistics()["plans"]
    for txn in range(2, 6):
        ticket = plugin.ticket("tickets", [[txn - 1]], SCHEMA, txn_id=txn)
        reports = loop.run_until_complete(engine.run(plan, ticket))
        assert plugin.rows(txn, reports)[0]["id"] == (txn - 1) * 1000
    assert engine.statistics()["plans"] == before


def test_a_blocked_source_is_cancelled_within_two_seconds(loop, engine, plugin):
    plugin.block.clear()
    plan = engine.build("t", SCHEMA, [UPPER], 1)

    async def cancelled() -> float:
        job = asyncio.ensure_future(engine.run(plan, plugin.ticket("blocked", [[1]], SCHEMA)))
        while not plugin.fetches:
            await asyncio.sleep(0.01)
        began = time.monotonic()
        engine.cancel("blocked")
        with pytest.raises(PenstockError):
            await job
        return time.monotonic() - began

    assert loop.run_until_complete(cancelled()) < 2.0


@pytest.mark.parametrize("steps", [[], [UPPER]], ids=["fused", "jvm"])
def test_a_source_that_stalls_is_cut_off_and_the_stage_named(loop, engine, plugin, steps):
    plugin.block.clear()
    plan = engine.build("t", SCHEMA, steps, 1)
    ticket = plugin.ticket("stalls", [[1]], SCHEMA, stall=0.3)

    async def run():
        return await engine.run(plan, ticket)

    try:
        reports = loop.run_until_complete(run())
        diagnostic = reports[0].error
    except RetriableError as error:
        diagnostic = error.diagnostic
    assert diagnostic.code == "deadline.exceeded"
    assert "plugin.fetch" in diagnostic.message


def test_rows_that_the_sink_refused_are_reported_by_place(loop, engine, plugin):
    plugin.rejects = [3, 5]
    plan = engine.build("t", SCHEMA, [], 1)
    reports = loop.run_until_complete(engine.run(plan, plugin.ticket("refused", [[1]], SCHEMA)))
    assert [row for row, _ in reports[0].rejected] == [3, 5]
    assert reports[0].rows_out == 998


@pytest.mark.parametrize("steps", [[], [UPPER]], ids=["fused", "jvm"])
def test_a_source_with_other_rows_than_announced_is_found_out(loop, engine, plugin, steps):
    plan = engine.build("t", SCHEMA, steps, 1)
    ticket = plugin.ticket("short", [[1]], SCHEMA)
    plugin.batches[1] = rows(0, 999)

    async def run():
        reports = await engine.run(plan, ticket)
        raise DataError(reports[0].error.code, reports[0].error.message)

    with pytest.raises(PenstockError, match="999 rows, 1000 were announced"):
        loop.run_until_complete(run())


def test_a_killed_python_worker_fails_the_job_and_not_the_session(loop, engine, plugin):
    plan = engine.build("t", SCHEMA, [], 1)
    plugin.block.clear()

    async def killed():
        job = asyncio.ensure_future(engine.run(plan, plugin.ticket("killed", [[1]], SCHEMA)))
        while not plugin.fetches:
            await asyncio.sleep(0.01)
        for process in psutil.Process().children(recursive=True):
            if is_worker(process):
                process.send_signal(signal.SIGKILL)
        with pytest.raises(RetriableError) as caught:
            await job
        assert caught.value.code == "engine.job_failed"
        plugin.block.set()
        return await engine.run(plan, plugin.ticket("killed", [[1]], SCHEMA))

    reports = loop.run_until_complete(killed())
    assert plugin.rows(1, reports) == plugin.batches[1].to_pylist()


def is_worker(process: psutil.Process) -> bool:
    """A fork of the daemon, not the daemon itself."""
    daemon = "penstock.spark.worker_daemon"
    try:
        parent = process.parent()
        return daemon in process.cmdline() and parent is not None and daemon in parent.cmdline()
    except psutil.Error:
        return False  # it ended while we looked


def test_an_expression_that_spark_cannot_resolve_is_a_configuration_error(engine):
    with pytest.raises(ConfigError) as caught:
        engine.build("t", SCHEMA, [Step(where="nothere > 1")], 1)
    assert caught.value.code == "transform.not_valid"
    assert "nothere" in str(caught.value)


def test_a_row_that_a_step_cannot_take_is_a_data_error(loop, engine, plugin):
    plan = engine.build("t", SCHEMA, [Step(select=(("x", "cast(name as int)"),))], 1)
    with pytest.raises(DataError) as caught:
        loop.run_until_complete(engine.run(plan, plugin.ticket("bad", [[1]], SCHEMA)))
    assert caught.value.code == "transform.bad_row"


def test_jobs_leave_no_threads_behind(loop, engine, plugin):
    plan = engine.build("t", SCHEMA, [], 1)
    loop.run_until_complete(engine.run(plan, plugin.ticket("threads", [[1]], SCHEMA)))
    before = threading.active_count()
    for txn in range(5):
        ticket = plugin.ticket("threads", [[1]], SCHEMA, txn_id=10 + txn)
        loop.run_until_complete(engine.run(plan, ticket))
    assert threading.active_count() <= before + engine.slots + 1
    assert os.getpid()
