"""Rows of a slot that go to several datasets: divided in the executor, announced by the driver."""

from dataclasses import replace

import pyarrow as pa
import pytest

from penstock.model.columns import TOPIC
from penstock.model.errors import DataError
from penstock.model.step import Step
from penstock.spark.connector_io import routed_rows
from penstock.spark.connector_io.routed_rows import (
    RoutedRows,
    Target,
    UnknownDatasetsError,
    divide_by_name,
    routed_spec,
    sort_by_name,
)
from penstock.transform.configuration import build_chain
from tests.unit.spark.tiny_plugin import SCHEMA, answered

LAST_DIGIT = "CASE WHEN id % 10 = 7 THEN NULL ELSE concat('d', id % 3) END"
ROUTED = Step(select=(("id", "id"), ("name", "name"), (TOPIC, LAST_DIGIT)))


def batch(*names):
    ids = pa.array(range(len(names)), pa.int64())
    return pa.RecordBatch.from_arrays([ids, pa.array(names, pa.string())], names=["id", TOPIC])


def drop_id(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.drop_columns(["id"])


@pytest.mark.parametrize(
    ("names", "ids"),
    [
        ((), []),
        (("a", "a"), [0, 1]),
        (("b", "a", "b", None, "a", None), [0, 2, 1, 4, 3, 5]),
        ((None, "a", None), [0, 2, 1]),
    ],
)
def test_rows_of_a_name_come_together_and_keep_their_order(names, ids):
    rows = sort_by_name(batch(*names))
    assert rows.column("id").to_pylist() == ids


def test_a_batch_is_divided_into_runs_of_a_name():
    runs = divide_by_name(batch("b", "b", None, "rest", "a"), "rest")
    assert [(name, rows.column("id").to_pylist()) for name, rows in runs] == [
        ("b", [0, 1]), ("rest", [2, 3]), ("a", [4])
    ]  # fmt: skip


def test_each_run_comes_with_its_spec_and_in_the_columns_of_the_sink():
    pair = {"a": Target({"schema_id": 1}), "b": Target({"schema_id": 2}, drop_id)}
    routed = RoutedRows(routed_spec(pair, "a"))
    found = [
        (spec["schema_id"], rows.schema.names, rows.num_rows)
        for spec, rows in routed.divide([batch("a", "b", "b", None)])
    ]
    assert found == [(1, ["id"], 1), (2, [], 2), (1, ["id"], 1)]
    assert routed.counts == {"a": 2, "b": 2}


def test_all_unknown_names_are_found_before_anything_counts():
    routed = RoutedRows(routed_spec({"a": Target({"schema_id": 1})}, "rest"))
    with pytest.raises(UnknownDatasetsError) as caught:
        list(routed.divide([batch("a", "x"), batch(None, "y", "a")]))
    assert caught.value.names == ["rest", "x", "y"]


def test_a_name_for_each_row_is_refused(monkeypatch):
    monkeypatch.setattr(routed_rows, "MAX_DATASETS", 3)
    routed = RoutedRows(routed_spec({}, "rest"))
    with pytest.raises(DataError, match=r"transform\.too_many_datasets"):
        list(routed.divide([batch("a", "b"), batch("c", "d")]))


def routed_ticket(plugin, known, slots=((1, 2), (3, 4))):
    ticket = plugin.ticket("routed", [list(seqs) for seqs in slots])
    return replace(
        ticket,
        slots=tuple(
            replace(
                slot,
                write=routed_spec(
                    {
                        name: Target({**slot.write, "schema_id": at})
                        for at, name in enumerate(known, 1)
                    },
                    "rest",
                ),
            )
            for slot in ticket.slots
        ),
    )


@pytest.fixture
def put(plugin):
    """The schema and the number of rows of each batch that the sink gets."""
    taken: list[tuple[int, int]] = []

    def answer(batch):
        taken.append((batch.schema_id, batch.rows))
        return answered(batch, [])

    plugin.answer = answer
    return taken


def test_rows_reach_the_datasets_that_they_name(loop, engine, plugin, put):
    """The slot is put in one call, each batch in the schema of its dataset."""
    plan = engine.build("t", SCHEMA, [ROUTED], 2)
    assert not plan.fused
    known = ["rest", "d0", "d1", "d2"]
    reports = loop.run_until_complete(engine.run(plan, routed_ticket(plugin, known[:2])))
    assert reports[0].detail == {"new_datasets": ["d1", "d2"]}
    put.clear()
    reports = loop.run_until_complete(engine.run(plan, routed_ticket(plugin, known)))
    wanted = [0 if n % 10 == 7 else 1 + n % 3 for n in range(1000, 5000)]
    for at, name in enumerate(known):
        assert sum(rows for found, rows in put if found == at + 1) == wanted.count(at)
        of_name = sum(report.detail["datasets"].get(name, 0) for report in reports)
        assert of_name == wanted.count(at)
    rows = plugin.rows(1, reports)
    assert sorted(row["id"] for row in rows) == list(range(1000, 5000))


def test_rows_reach_the_datasets_that_they_name_without_the_jvm(loop, engine, plugin, put):
    config = {"transforms": "t", "transforms.t.type": "ExtractTopic", "transforms.t.field": "name"}
    plan = engine.build("t", SCHEMA, build_chain(config).compile("rest", SCHEMA).steps, 1)
    assert plan.fused
    plugin.batches = {1: plugin.batches[1].slice(0, 3)}
    known = ["n1000", "n1001", "n1002"]
    (report,) = loop.run_until_complete(engine.run(plan, routed_ticket(plugin, known, ((1,),))))
    assert put == [(1, 1), (2, 1), (3, 1)]
    assert report.detail["datasets"] == dict.fromkeys(known, 1)


def test_a_predicate_over_the_names_of_rows_is_that_of_java(loop, engine, plugin):
    config = {
        "transforms": "t,f",
        "transforms.t.type": "ExtractTopic",
        "transforms.t.field": "name",
        "transforms.f.type": "Filter",
        "transforms.f.predicate": "p",
        "predicates": "p",
        "predicates.p.type": "TopicNameMatches",
        "predicates.p.pattern": r"n\d+[0-4]|n1009",
    }
    steps = build_chain(config).compile("rest", SCHEMA).steps
    plan = engine.build("t", SCHEMA, steps, 1)
    plugin.batches = {1: plugin.batches[1].slice(0, 12)}
    ticket = routed_ticket(plugin, [], ((1,),))
    (report,) = loop.run_until_complete(engine.run(plan, ticket))
    assert report.detail["new_datasets"] == ["n1005", "n1006", "n1007", "n1008"]
