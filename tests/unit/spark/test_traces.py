"""The trace of a micro-batch reaches source and sink plugins."""

import pytest

from tests.unit.spark.tiny_plugin import SCHEMA

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize("trace", [PARENT, ""])
def test_fetch_and_put_are_parts_of_it(loop, engine, plugin, trace):
    plan = engine.build("traces", SCHEMA, (), 1)
    ticket = plugin.ticket("traces", [[1]], trace=trace)
    (report,) = loop.run_until_complete(engine.run(plan, ticket))
    assert report.error is None
    assert plugin.traces == [trace or None] * 2
