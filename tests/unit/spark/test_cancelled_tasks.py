"""A row that computes for minutes, or needs more memory than there is, harms its own task alone."""

import asyncio

import pytest

from penstock.model.errors import RetriableError
from penstock.model.step import Step
from penstock.spark import spark_jobs
from tests.unit.spark.tiny_plugin import SCHEMA, until

pytestmark = pytest.mark.usefixtures("end_engine")

PLAIN = Step(select=(("id", "id + 1"), ("name", "name")))


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(spark_jobs, "STUCK_AFTER_S", 0.2)


def computing(engine):
    """How many tasks of any stage run in the JVM."""
    return spark_jobs.count_running_tasks(engine._jvm, range(10_000))


def test_a_task_that_ends_when_it_is_cancelled_costs_no_slot(loop, engine, plugin):
    plugin.block.clear()
    plan = engine.build("t", SCHEMA, [PLAIN], 1)

    async def run():
        job = asyncio.ensure_future(engine.run(plan, plugin.ticket("t", [[1]])))
        await until(lambda: plugin.fetches, "the fetch")
        engine.cancel("t")
        with pytest.raises(RetriableError):
            await job
        plugin.block.set()
        await until(lambda: computing(engine) == 0, "its task to end")
        assert engine.statistics()["lost_slots"] == 0

    loop.run_until_complete(run())


@pytest.mark.parametrize(
    "text",
    [
        "size(array_repeat(name, 2000000000))",
        "length(aggregate(sequence(1, 31), name, (a, x) -> concat(a, a)))",
    ],
)
def test_a_row_that_needs_too_much_memory_fails_its_micro_batch_and_no_other(
    loop, engine, plugin, text
):
    plan = engine.build("t", SCHEMA, [Step(select=(("id", f"id + {text}"), ("name", "name")))], 1)
    with pytest.raises(RetriableError) as caught:
        loop.run_until_complete(engine.run(plan, plugin.ticket("t", [[1]])))
    assert caught.value.code == "engine.out_of_memory"
    assert not engine.lost.is_set()
    after = engine.build("t", SCHEMA, [PLAIN], 1)
    reports = loop.run_until_complete(engine.run(after, plugin.ticket("t", [[2]], txn_id=2)))
    assert reports[0].rows_out == 1000
