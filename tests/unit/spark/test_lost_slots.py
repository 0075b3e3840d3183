"""Slots whose tasks go on computing after they were cancelled are counted as lost."""

import asyncio

import pytest

from penstock.model.errors import RetriableError
from penstock.model.step import Step
from penstock.spark import spark_jobs
from penstock.spark.engine import Engine
from penstock.spark.settings import EngineSettings
from tests.unit.spark.tiny_plugin import SCHEMA, TinyPlugin, rows, until

pytestmark = pytest.mark.usefixtures("no_kept_engine")

LOOP = "aggregate(sequence(1, 30000), 0L, (a, x) -> {} )"
MINUTES = LOOP.format(f"a + {LOOP.format('a + x')}")
"""An expression that Spark computes for minutes over one row, without looking whether it should."""

SPIN = Step(select=(("id", f"id + {MINUTES}"), ("name", "name")))
PLAIN = Step(select=(("id", "id + 1"), ("name", "name")))


@pytest.fixture
def one_row(tmp_path):
    plugin = TinyPlugin(tmp_path, SCHEMA)
    plugin.batches = {1: rows(0, 1), 2: rows(1, 1)}
    yield plugin
    plugin.stop()


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(spark_jobs, "STUCK_AFTER_S", 0.2)


def computing(engine):
    """How many threads of the JVM evaluate the expression: a task that still waits for its rows
    ends when it is cancelled.
    """
    management = engine._jvm.session._jvm.java.lang.management
    threads = management.ManagementFactory.getThreadMXBean().dumpAllThreads(False, False)
    tasks = [one for one in threads if one.getThreadName().startswith("Executor task launch")]
    return sum("ArrayAggregate.eval" in one.toString() for one in tasks)


async def cancelled(engine, plugin, task):
    """Cancel a task while it computes."""
    plan = engine.build("t", SCHEMA, [SPIN], 1)
    before = computing(engine)
    run = asyncio.ensure_future(engine.run(plan, plugin.ticket(task, [[1]])))
    await until(lambda: computing(engine) > before, "the row to be computed")
    engine.cancel(task)
    with pytest.raises(RetriableError):
        await run


def test_slots_that_compute_for_cancelled_jobs_are_lost_until_too_few_are_left(tmp_path, one_row):
    async def run():
        engine = Engine(EngineSettings(master="local[2,1]", slots=2, local_dir=tmp_path / "spark"))
        await engine.start()
        await cancelled(engine, one_row, "first")
        await until(lambda: engine.statistics()["lost_slots"] == 1, "the lost slot")
        assert not engine.lost.is_set()
        plan = engine.build("t", SCHEMA, [PLAIN], 1)
        reports = await engine.run(plan, one_row.ticket("other", [[2]], txn_id=7))
        assert reports[0].rows_out == 1
        await cancelled(engine, one_row, "second")
        async with asyncio.timeout(60):
            await engine.lost.wait()
        with pytest.raises(RetriableError) as caught:
            engine.build("t", SCHEMA, [PLAIN], 1)
        assert caught.value.code == "engine.slots_lost"
        await engine.stop()

    asyncio.run(run())
