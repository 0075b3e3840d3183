"""A plugin's transform inside a real Spark session: in a fused plan, and between SQL steps."""

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.model.errors import ConfigError
from penstock.transform.configuration import Extensions, build_chain
from penstock_connector import DataError, Transform, Transformed
from penstock_connector.testing import Testbed
from tests.unit.spark.tiny_plugin import SCHEMA


class Tag(Transform):
    """Adds a column, and drops every tenth row."""

    name = "tag"

    def schema(self, schema):
        return schema.append(pa.field("tag", pa.string()))

    def apply(self, rows):
        ids = rows["id"].to_pylist()
        failed = [
            (at, DataError("x.y", "z")) for at, n in enumerate(ids) if n == 3013 and self.unlucky
        ]
        kept = [at for at, n in enumerate(ids) if n % 10 and not (failed and n == 3013)]
        gone = [at for at, n in enumerate(ids) if not n % 10]
        return Transformed(self.tagged(rows.take(pa.array(kept, pa.int32()))), None, gone, failed)

    unlucky = False

    def tagged(self, rows):
        return rows.append_column("tag", pc.binary_join_element_wise("#", rows["name"], ""))


@pytest.fixture(scope="module")
def bed():
    with Testbed(Tag) as served:
        yield served


def chain(bed, *members):
    """A chain with places, from (type, keys) pairs; `tag` is the plugin's."""
    config = {"transforms": ",".join(f"t{n}" for n in range(len(members)))}
    for number, (kind, keys) in enumerate(members):
        config |= {f"transforms.t{number}.{key}": v for key, v in {"type": kind, **keys}.items()}
    built = build_chain(config, Extensions(plugins=lambda name: name == "tag"))
    return built.with_connections(lambda r: replace(r, address=bed.address, credential="a-test"))


REPLACE = ("ReplaceField", {"exclude": "name"})
FILTER = ("Filter", {"condition": "id % 10 <> 7 AND hash(id) <> 0"})


@pytest.mark.parametrize(
    ("members", "fused"),
    [((("tag", {}), REPLACE), True), ((FILTER, ("tag", {}), REPLACE, FILTER), False)],
    ids=["fused", "jvm"],
)
def test_rows_go_through_the_plugin_once_and_in_order(loop, engine, plugin, bed, members, fused):
    compiled = chain(bed, *members).compile("d", SCHEMA)
    plan = engine.build("t", SCHEMA, compiled.steps, 2)
    assert plan.fused is fused
    assert plan.output_schema.names == ["id", "tag"]
    reports = loop.run_until_complete(engine.run(plan, plugin.ticket("o", [[1, 2], [3, 4]])))
    assert [r.error for r in reports] == [None, None]
    expected = [
        {"id": r["id"], "name": f"#{r['name']}"}  # the sink has names of its own for columns
        for r in plugin.source_rows()
        if r["id"] % 10 and (fused or r["id"] % 10 != 7)
    ]
    assert plugin.rows(1, reports) == expected
    assert sum(r.rows_in for r in reports) == 4000


@pytest.mark.parametrize("members", [(("tag", {}),), (("tag", {}), FILTER)], ids=["fused", "jvm"])
def test_a_row_that_fails_is_set_apart_with_the_plugins_code(
    loop, engine, plugin, bed, members, monkeypatch
):
    monkeypatch.setattr(Tag, "unlucky", True)
    compiled = chain(bed, *members).compile("d", SCHEMA)
    plan = engine.build("t", SCHEMA, compiled.steps, 1)
    ticket = plugin.ticket("bad", [[1, 2, 3, 4]])
    (report,) = loop.run_until_complete(engine.run(plan, ticket))
    assert report.error is None
    ((row, reason),) = report.rejected_by_chain
    assert (plugin.source_rows()[row]["id"], reason.code) == (3013, "x.y")


def test_a_router_behind_a_plugin_is_refused_where_it_can_be_told(engine, bed):
    router = ("RegexRouter", {"regex": "d", "replacement": "e"})
    compiled = chain(bed, ("tag", {}), router).compile("d", SCHEMA)
    with pytest.raises(ConfigError) as caught:
        engine.build("t", SCHEMA, compiled.steps, 1)
    assert caught.value.code == "transform.router_after_plugin"
    assert chain(bed, router, ("tag", {})).compile("d", SCHEMA).dataset == "e"
