"""Micro-batches through a real Spark session, with a gRPC source and sink."""

import asyncio
import functools
import threading

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.model.errors import ConfigError, DataError, PenstockError, SchemaError
from penstock.model.step import Step
from penstock.spark.engine import Engine
from tests.unit.spark.tiny_plugin import SCHEMA, TinyPlugin, rows, until

UPPER = Step(where="id % 10 <> 7", select=(("id", "id"), ("name", "upper(name)")))


def upper(batch: pa.RecordBatch) -> pa.RecordBatch:
    """What `UPPER` says, in Arrow."""
    last = pc.subtract(batch["id"], pc.multiply(pc.divide(batch["id"], 10), 10))
    kept = batch.filter(pc.not_equal(last, 7))
    return kept.set_column(1, "name", pc.utf8_upper(kept["name"]))


def broken(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A kernel that fails on every row."""
    return batch.set_column(0, "id", pc.divide(batch["id"], 0)) if batch.num_rows else batch


FUSED = Step(UPPER.where, UPPER.select, kernel=upper)
LANES = pytest.mark.parametrize("steps", [[], [UPPER]], ids=["fused", "jvm"])


def first(loop, engine, plan, ticket):
    """What a micro-batch of one slot came to, raised if it is an error."""
    report = loop.run_until_complete(engine.run(plan, ticket))[0]
    if report.error is not None:
        raise PenstockError(report.error.code, report.error.message)
    return report


@LANES
def test_rows_arrive_once_and_in_order(loop, engine, plugin, steps):
    plan = engine.build("t", SCHEMA, steps, 2)
    reports = loop.run_until_complete(engine.run(plan, plugin.ticket("order", [[1, 2], [3, 4]])))
    assert [r.error for r in reports] == [None, None]
    expected = plugin.source_rows()
    if steps:
        expected = [
            {"id": r["id"], "name": r["name"].upper()} for r in expected if r["id"] % 10 != 7
        ]
    assert plugin.rows(1, reports) == expected
    assert sum(r.rows_out for r in reports) == len(expected)
    assert sum(r.rows_in for r in reports) == 4000


def test_both_kinds_of_plan_give_the_same_rows_and_the_same_schema(loop, engine, plugin):
    """Fused and through the JVM, over a chain of two."""
    fused = engine.build("f", SCHEMA, [FUSED, FUSED], 2)
    crossing = engine.build("c", SCHEMA, [FUSED, UPPER], 2)
    assert (fused.fused, crossing.fused) == (True, False)
    assert fused.output_schema.equals(crossing.output_schema)
    found = []
    for txn, plan in enumerate((fused, crossing), 1):
        ticket = plugin.ticket("plans", [[1, 2], [3, 4]], txn_id=txn)
        found.append(plugin.rows(txn, loop.run_until_complete(engine.run(plan, ticket))))
    assert found[0] == found[1]
    assert len(found[0]) == 3600


def test_a_task_with_several_datasets_keeps_a_plan_for_each(loop, engine, tmp_path):
    schemas = [pa.schema([(f"c{n}", pa.int64())]) for n in range(3)]
    plugins = [TinyPlugin(tmp_path, schema, f"s{n}") for n, schema in enumerate(schemas)]
    plans = []
    for n, plugin in enumerate(plugins):
        plugin.batches[1] = pa.RecordBatch.from_arrays([pa.array([n, n])], schema=schemas[n])
        steps = [Step(select=((f"c{n}", f"c{n} + 1"),))]
        plans.append(engine.build(f"t#{n}", schemas[n], steps, 1))

    async def run_all():
        runs = [engine.run(p, q.ticket("t", [[1]])) for p, q in zip(plans, plugins, strict=True)]
        return await asyncio.gather(*runs)

    for n, (plugin, reports) in enumerate(
        zip(plugins, loop.run_until_complete(run_all()), strict=True)
    ):
        assert plugin.rows(1, reports) == [{f"c{n}": n + 1}] * 2
        plugin.stop()


def test_a_plan_is_analysed_once_and_each_batch_brings_its_ticket(loop, engine, plugin):
    plan = engine.build("t", SCHEMA, [UPPER], 1)
    reports = loop.run_until_complete(engine.run(plan, plugin.ticket("tickets", [[1]])))
    # when Spark analysed, optimized and planned, with times; and the physical plan itself
    execution = plan.work._jdf.queryExecution()
    phases, planned = str(execution.tracker().phases()), execution.executedPlan()
    assert all(phase in phases for phase in ("analysis", "optimization", "planning"))
    for txn in range(2, 5):
        reports = loop.run_until_complete(
            engine.run(plan, plugin.ticket("tickets", [[txn]], txn_id=txn))
        )
        assert plugin.rows(txn, reports)[0]["id"] == txn * 1000
    again = plan.work._jdf.queryExecution()
    assert str(again.tracker().phases()) == phases
    assert again.executedPlan().equals(planned)


@pytest.mark.parametrize("condition", ["false", "id < 0 and id > 0", "cast(null as boolean)"])
def test_a_condition_that_no_row_meets_still_reads_and_reports(loop, engine, plugin, condition):
    plan = engine.build("t", SCHEMA, [Step(where=condition)], 2)
    reports = loop.run_until_complete(engine.run(plan, plugin.ticket("none", [[1, 2], [3, 4]])))
    assert [(r.slot, r.rows_in, r.rows_out) for r in reports] == [(0, 2000, 0), (1, 2000, 0)]


def test_names_and_expressions_stay_apart(loop, engine, plugin):
    """Neither quotes nor `${env:…}` in a name or a text are read as anything else."""
    name = "a`b ${env:HOME} AS c"
    text = "'${env:HOME}'"
    plan = engine.build("t", SCHEMA, [Step(select=((name, "id"), ("t", text)))], 1)
    assert plan.output_schema.names == [name, "t"]
    plugin.put_schema = plan.output_schema
    reports = loop.run_until_complete(engine.run(plan, plugin.ticket("names", [[1]])))
    assert plugin.rows(1, reports)[0] == {name: 1000, "t": "${env:HOME}"}


def test_an_expression_that_spark_cannot_resolve_is_a_configuration_error(engine, capfd):
    with pytest.raises(ConfigError) as caught:
        engine.build("t", SCHEMA, [Step(where="nothere > 1")], 1)
    assert caught.value.code == "transform.not_valid"
    assert "nothere" in str(caught.value)
    assert capfd.readouterr().err == ""  # raised once, not printed too


def test_a_type_without_counterpart_is_a_schema_error(engine):
    union = pa.schema([("u", pa.dense_union([pa.field("a", pa.int64())]))])
    with pytest.raises(SchemaError) as caught:
        engine.build("t", union, [], 1)
    assert caught.value.code == "engine.unsupported_type"


@pytest.mark.parametrize(
    "sql", ["cast(name as int)", "id / 0", "raise_error('no')", "cast(id as tinyint)",
            "to_date(name, 'yyyy')", "array(1)[5]", "id * 9223372036854775807"],
)  # fmt: skip
def test_a_row_that_a_step_cannot_take_is_a_data_error(loop, engine, plugin, sql):
    plan = engine.build("t", SCHEMA, [Step(select=(("x", sql),))], 1)
    with pytest.raises(DataError) as caught:
        first(loop, engine, plan, plugin.ticket("bad", [[1]]))
    assert caught.value.code == "transform.bad_row"


def test_a_condition_is_as_strict_as_an_expression_in_whatever_thread_it_is_built(
    loop, engine, plugin
):
    """Spark takes the settings of the thread's session, and a new thread has none."""
    found = []
    for step in (Step(where="cast(name as int) > 0"), Step(select=(("x", "cast(name as int)"),))):
        build = functools.partial(engine.build, "t", SCHEMA, [step], 1)
        thread = threading.Thread(target=lambda build=build: found.append(build()))
        thread.start()
        thread.join()
    for plan in found:
        with pytest.raises(DataError):
            first(loop, engine, plan, plugin.ticket("strict", [[1]]))


def test_a_row_that_a_kernel_cannot_take_is_a_data_error(loop, engine, plugin):
    plan = engine.build("t", SCHEMA, [Step("id > 0", kernel=broken)], 1)
    with pytest.raises(PenstockError, match=r"transform\.bad_row.*divide by zero"):
        first(loop, engine, plan, plugin.ticket("bad", [[1]]))


@LANES
def test_rows_that_the_sink_refused_are_reported_by_place(loop, engine, plugin, steps):
    plugin.refuse = [5, 3]
    plan = engine.build("t", SCHEMA, steps, 1)
    report = first(loop, engine, plan, plugin.ticket("refused", [[1]]))
    assert [row for row, _ in report.rejected] == [3, 5]
    assert report.rows_out == (898 if steps else 998)


@LANES
def test_a_source_with_other_rows_than_announced_is_found_out(loop, engine, plugin, steps):
    plan = engine.build("t", SCHEMA, steps, 1)
    ticket = plugin.ticket("short", [[1]])
    plugin.batches[1] = rows(0, 999)
    with pytest.raises(PenstockError, match="999 rows, 1000 were announced"):
        first(loop, engine, plan, ticket)


@LANES
def test_an_unknown_end_is_named(loop, engine, plugin, steps):
    plan = engine.build("t", SCHEMA, steps, 1)
    ticket = plugin.ticket("ends", [[1]])
    ticket.slots[0].read["kind"] = "carrier pigeon"
    with pytest.raises(PenstockError, match="carrier pigeon"):
        first(loop, engine, plan, ticket)


def test_the_engine_runs_one_job_more_than_slots_and_the_rest_waits(loop, engine, plugin):
    plan = engine.build("t", SCHEMA, [UPPER], 1)
    plugin.block.clear()

    async def crowd():
        runs = [
            asyncio.ensure_future(engine.run(plan, plugin.ticket(f"c{n}", [[1]], txn_id=n)))
            for n in range(8)
        ]
        await until(lambda: engine.statistics()["waiting"] == 8 - engine.slots - 1, "the queue")
        assert engine.statistics()["running"] == engine.slots + 1
        plugin.block.set()
        return await asyncio.gather(*runs)

    assert len(loop.run_until_complete(crowd())) == 8
    assert engine.statistics()["waiting"] == engine.statistics()["running"] == 0


def test_lanes_that_wait_for_plugins_make_others_open_and_the_rest_waits(loop, engine, plugin):
    """As many as there may be; each slot in one of them."""
    plan = engine.build("t", SCHEMA, [], 1)
    most = engine._settings.most_lanes
    plugin.block.clear()

    async def crowd():
        runs = [
            asyncio.ensure_future(engine.run(plan, plugin.ticket(f"c{n}", [[1]], txn_id=n)))
            for n in range(most + 3)
        ]
        await until(lambda: plugin.open_fetches == most, "all lanes")
        assert engine.statistics()["lanes"] == engine.statistics()["running"] == most
        assert engine.statistics()["waiting"] == 3
        plugin.block.set()
        return await asyncio.gather(*runs)

    assert len(loop.run_until_complete(crowd())) == most + 3
    assert engine.statistics()["waiting"] == engine.statistics()["running"] == 0


def test_before_its_start_an_engine_says_so():
    with pytest.raises(PenstockError, match="not running"):
        Engine().build("t", SCHEMA, [], 1)


def test_a_plan_with_a_frozen_time_is_refused(engine):
    with pytest.raises(ConfigError) as caught:
        engine.build("t", SCHEMA, [Step(where="timestamp_millis(id) < 'now'")], 1)
    assert caught.value.code == "transform.frozen_time"
