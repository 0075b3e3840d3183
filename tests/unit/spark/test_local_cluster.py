"""Executors in processes of their own, as in a cluster: the same plans, nothing leaks."""

import asyncio

import pytest

from penstock.model.step import Step
from penstock.spark.engine import Engine
from penstock.spark.settings import EngineSettings
from tests.unit.spark.tiny_plugin import CREDENTIAL, SCHEMA

pytestmark = pytest.mark.usefixtures("no_kept_engine")

UPPER = Step(where="id % 10 <> 7", select=(("id", "id"), ("name", "upper(name)")))


@pytest.mark.slow
def test_two_executors_move_the_rows_and_no_log_knows_the_credential(tmp_path, plugin):
    """Spark's event log holds the properties of every job; tickets are one (invariant 9)."""
    events = tmp_path / "events"
    events.mkdir()
    settings = EngineSettings(
        master="local-cluster[2,1,1024]",
        slots=2,
        local_dir=tmp_path / "spark",
        extra={
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": events.as_uri(),
            "spark.eventLog.compress": "false",
        },
    )

    async def run() -> None:
        engine = Engine(settings)
        await engine.start()
        for txn, steps in enumerate(([], [UPPER]), 1):
            plan = engine.build("t", SCHEMA, steps, 2)
            ticket = plugin.ticket("t", [[1, 2], [3, 4]], txn_id=txn)
            reports = await engine.run(plan, ticket)
            assert len(plugin.rows(txn, reports)) == sum(r.rows_out for r in reports)
            assert sum(r.rows_out for r in reports) == (3600 if steps else 4000)
        await engine.stop()

    asyncio.run(run())
    logged = "".join(path.read_text() for path in events.rglob("*") if path.is_file())
    assert "SparkListenerJobStart" in logged
    assert CREDENTIAL not in logged
