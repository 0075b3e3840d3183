"""Every type, through both kinds of plan of a real session: the sink gets what the source had."""

import pyarrow as pa
import pytest

from penstock.model.step import Step
from penstock.spark.schema import has_dictionaries, normalize_batch
from tests.unit.spark.test_schema import CHANGED, SAME, column
from tests.unit.spark.tiny_plugin import TinyPlugin

TYPES = [*SAME, *((type_, values) for type_, _, values, _ in CHANGED)]


def table() -> pa.RecordBatch:
    """A column for each type, five rows: dictionaries travel in messages of their own."""
    columns = {}
    for n, (type_, values) in enumerate(TYPES):
        if not has_dictionaries(pa.schema([("c", type_)])):
            columns[f"c.{n}"] = column(type_, (values * 3)[:3]).column(0)
    return pa.RecordBatch.from_pydict(columns)


@pytest.mark.parametrize("steps", [[], [Step(where="true or `c.0`")]], ids=["fused", "jvm"])
def test_every_type_goes_through(loop, engine, tmp_path, steps):
    source = table()
    plan = engine.build("types", source.schema, steps, 1)
    plugin = TinyPlugin(tmp_path, source.schema)
    plugin.batches[1], plugin.put_schema = source, plan.output_schema
    (report,) = loop.run_until_complete(engine.run(plan, plugin.ticket("types", [[1]])))
    assert report.error is None
    (batch,) = plugin.put[1, 0, report.attempt]
    assert batch.to_pylist() == normalize_batch(source, plan.output_schema).to_pylist()
    plugin.stop()


def test_both_kinds_of_plan_promise_the_same_schema(engine):
    fused = engine.build("f", table().schema, [], 1)
    crossing = engine.build("c", table().schema, [Step(where="true or `c.0`")], 1)
    assert fused.output_schema.equals(crossing.output_schema)
