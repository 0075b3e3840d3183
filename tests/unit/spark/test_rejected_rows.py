"""A row that a chain cannot change leaves the batch with its number, stage and code; its neighbours
arrive. In Spark, in kernels, and where both are mixed.
"""

from dataclasses import replace

import pyarrow as pa
import pytest

from penstock.model.dead_letter_queue import MAX_REJECTED_ROWS
from penstock.model.errors import DataError, Diagnostic, ErrorClass
from penstock.model.schema_drift import make_fit_kernel
from penstock.model.step import Step
from penstock.spark.connector_io.sink_writer import reject_spec
from penstock.spark.rejected_rows import RejectedRows
from penstock.transform.configuration import Extensions, build_chain
from penstock_values.semantic_types import semantic_type
from tests.unit.spark.tiny_plugin import SCHEMA

REASON = Diagnostic("transform.bad_row", "no", ErrorClass.DATA, config_path="transforms.t")
FUNCTIONS = """
def picky(row):
    if row["id"] % 1000 == 5:
        raise ValueError("five")
    return {"id": row["id"], "name": row["name"]}


def add(batch):
    import pyarrow.compute as pc
    return batch.set_column(0, "id", pc.add(batch["id"], 1))
"""
COLUMNS = "id int64, name string"
PICKY = {"type": "python", "function": "mine:picky", "mode": "row", "columns": COLUMNS}
ADD = {"type": "python", "function": "mine:add"}
DIVIDE = {"type": "Project", "columns": "id, name, 10 / (id - 1001) AS q"}
FRACTION = {"type": "Cast", "spec": "id:float64"}
TEXT = {"type": "Cast", "spec": "id:string"}  # of a fraction: without a kernel, and never fails
WHOLE = {"type": "Cast", "spec": "id:int64"}
KEEPS = {"type": "Filter", "condition": "10 / (id - 1003) < 1000 and id % 1000 < 8"}


@pytest.fixture
def steps(tmp_path):
    (tmp_path / "mine.py").write_text(FUNCTIONS)

    def made(*transforms):
        config = {"transforms": ",".join(f"t{n}" for n in range(len(transforms)))}
        for n, transform in enumerate(transforms):
            config |= {f"transforms.t{n}.{key}": value for key, value in transform.items()}
        return build_chain(config, Extensions(functions=[tmp_path])).compile("d", SCHEMA).steps

    return made


@pytest.fixture
def moved(loop, engine, plugin):
    def move(steps, batches=(1,)):
        plan = engine.build("rejected", SCHEMA, steps, 1)
        plugin.put_schema = plan.output_schema
        ticket = plugin.ticket("rejected", [list(batches)])
        (report,) = loop.run_until_complete(engine.run(plan, ticket))
        assert report.error is None, report.error
        return plan, report, plugin.rows(1, [report])

    return move


def stages(report):
    return [(row, reason.code, reason.config_path) for row, reason in report.rejected_by_chain]


@pytest.mark.parametrize("chain", [(PICKY,), (DIVIDE, PICKY)], ids=["fused", "in Spark"])
def test_rows_that_failed_at_the_sink_are_found_in_the_source_again(
    loop, engine, plugin, chain, steps
):
    """They are counted among the rows that were put, which are fewer and have other numbers."""
    plan = engine.build(
        "rejected", SCHEMA, steps({"type": "Filter", "condition": "id % 2 = 1"}, *chain), 1
    )
    ticket = plugin.ticket("rejected", [[1]])
    (slot,) = ticket.slots
    put = 498 if len(chain) == 2 else 499

    def run(spec):
        again = replace(ticket, slots=(replace(slot, write=spec),))
        (report,) = loop.run_until_complete(engine.run(plan, again))
        return report

    report = run(reject_spec([(0, REASON), (2, REASON), (put - 1, REASON)], put))
    first = 3 if len(chain) == 2 else 1
    assert report.error is None, report.error
    assert [row for row, _ in report.rejected] == [first, 9 if len(chain) == 2 else 7, 999]
    assert report.rows_out == put - 3
    assert run(reject_spec([(1, REASON)], put + 1)).error.code == "transform.not_repeatable"
    assert run(reject_spec([(put, REASON)], put)).error.code == "plugin.protocol.failed_rows"


def test_in_spark_the_neighbours_pass(steps, moved):
    plan, report, rows = moved(steps(DIVIDE), (1, 2))
    assert not plan.fused
    assert stages(report) == [(1, "transform.bad_row", "transforms.t0")]
    assert (report.rows_in, report.rows_out, len(rows)) == (2000, 1999, 1999)
    assert rows[0]["q"] == -10
    assert [row["id"] for row in rows[:2]] == [1000, 1002]


def test_each_step_names_itself_and_a_row_fails_once(steps, moved):
    _, report, rows = moved(steps(DIVIDE, KEEPS))
    assert stages(report) == [
        (1, "transform.bad_row", "transforms.t0"),
        (3, "transform.bad_row", "transforms.t1"),
    ]
    assert [row["id"] for row in rows] == [1000, 1002, 1004, 1005, 1006, 1007]


def test_a_kernel_sets_rows_apart_without_the_jvm(steps, moved):
    plan, report, rows = moved(steps({"type": "Filter", "condition": "id % 2 = 1"}, PICKY), (1, 2))
    assert plan.fused
    assert stages(report) == [
        (5, "transform.function_failed", "transforms.t1.function"),
        (1005, "transform.function_failed", "transforms.t1.function"),
    ]
    assert len(rows) == report.rows_out == 998


@pytest.mark.parametrize(
    ("chain", "failed"),
    [
        ((PICKY, DIVIDE), [(1, "transforms.t1"), (5, "transforms.t0.function")]),
        ((ADD, DIVIDE, PICKY), [(0, "transforms.t1"), (4, "transforms.t2.function")]),
        ((DIVIDE, PICKY, KEEPS), None),
        ((FRACTION, TEXT, FRACTION, WHOLE, PICKY, FRACTION, TEXT), None),
    ],
    ids=["first", "last", "between", "between certain steps"],
)
def test_functions_and_spark_can_be_mixed(steps, moved, chain, failed):
    plan, report, rows = moved(steps(*chain))
    assert not plan.fused
    found = [(row, reason.config_path) for row, reason in report.rejected_by_chain]
    if failed is not None:
        assert found == failed
    assert any(path.endswith(".function") for _, path in found)
    assert report.rows_out == len(rows)
    assert 5 not in {float(row["id"]) - 1000 for row in rows} or chain[0] is ADD


def test_a_last_kernel_runs_behind_spark(steps, moved):
    """What fits rows to the place they go to is a kernel, whatever the chain is."""
    wanted = pa.schema({"id": pa.string(), "name": pa.string()})
    fitting = Step(kernel=make_fit_kernel(SCHEMA, wanted, "d"))
    plan, _, rows = moved((Step(where="id <> 1001"), fitting))
    assert plan.output_schema == wanted
    assert [row["id"] for row in rows[:2]] == ["1000", "1002"]


def test_what_values_mean_and_how_a_schema_is_called_reaches_the_sink(steps, engine):
    chain = steps(
        {"type": "TimestampConverter", "field": "id", "target.type": "Time"},
        {"type": "ReplaceField", "renames": "id:at"},
        {"type": "SetSchemaMetadata", "schema.name": "n", "schema.version": "3"},
    )
    schema = engine.build("labels", SCHEMA, chain, 1).output_schema
    assert semantic_type(schema.field("at")) == "time"
    assert schema.metadata == {b"penstock.schema.name": b"n", b"penstock.schema.version": b"3"}


def test_a_chain_that_cannot_fail_carries_no_numbers(steps):
    assert not any(step.can_reject_rows for step in steps(FRACTION, TEXT, {"type": "Flatten"}))
    assert all(step.can_reject_rows for step in steps(DIVIDE, KEEPS, PICKY))


def test_rows_that_are_told_are_bounded():
    rejected = RejectedRows()
    rejected.add([(row, REASON) for row in range(MAX_REJECTED_ROWS)])
    with pytest.raises(DataError) as caught:
        rejected.add([(0, REASON)])
    assert caught.value.code == "transform.too_many_bad_rows"


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("number_rows", [True, False])
def test_refused_rows_are_told_by_their_numbers_in_the_input(
    steps, loop, engine, plugin, fused, number_rows
):
    """Where rows are numbered; the sink knows them by their numbers in the output alone."""
    odd = "id % 2 = 1"
    chain = steps({"type": "Filter", "condition": odd}) if fused else [Step(where=odd)]
    plan = engine.build("refused", SCHEMA, chain, 1, number_rows=number_rows)
    assert plan.fused is fused
    plugin.put_schema, plugin.refuse = plan.output_schema, [0, 3]
    (report,) = loop.run_until_complete(engine.run(plan, plugin.ticket("refused", [[1]])))
    assert [row for row, _ in report.rejected] == ([1, 7] if number_rows else [0, 3])
    assert (report.rows_in, report.rows_out) == (1000, 498)
    assert plan.output_schema.names == ["id", "name"]


def test_rows_are_not_numbered_where_as_many_come_out_as_go_in(loop, engine, plugin):
    plan = engine.build("refused", SCHEMA, (), 1, number_rows=True)
    plugin.refuse = [3]
    (report,) = loop.run_until_complete(engine.run(plan, plugin.ticket("refused", [[1]])))
    assert [row for row, _ in report.rejected] == [3]
