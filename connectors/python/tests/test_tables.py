"""The kit for table sinks: by its rules, and by the sink of its README."""

import sqlite3
from pathlib import Path

import pyarrow as pa
import pytest

from penstock_connector import Op, SchemaError
from penstock_connector._config import parse_config
from penstock_connector.tables.changes import Verb
from penstock_connector.tables.columns import Column, Shape
from penstock_connector.tables.fitting import Limit
from penstock_connector.tables.mapping import map_columns
from penstock_connector.tables.names import TableId
from penstock_connector.tables.routing import Route
from penstock_connector.tables.writes import plan_writes
from penstock_connector.testing import RemoteError, sink_task, validate

ROOT = Path(__file__).parent.parent
UPSERT = {"insert.mode": "upsert", "pk.mode": "record_value", "pk.fields": "id"}
MAKES = {"auto.create": "true", "auto.evolve": "true"}


@pytest.fixture
def file(tmp_path):
    return tmp_path / "t.db"


def config(file, *more):
    return {"connection.url": str(file)} | {k: v for keys in more for k, v in keys.items()}


def rows_of(file, table="t"):
    with sqlite3.connect(file) as session:
        found = session.execute(f'SELECT * FROM "{table}" ORDER BY 1').fetchall()
    session.close()
    return found


# ── the sink of the README ───────────────────────────────────────────────────────────────────────


def test_the_readme_shows_the_example_as_it_is():
    code = (ROOT / "examples/tables.py").read_text()
    readme = (ROOT / "penstock_connector/tables/README.md").read_text()
    assert f"```python\n{code}```" in readme


def test_tables_are_made_and_get_new_columns(tables, file):
    with sink_task(tables, config(file, MAKES)) as task:
        task.write([{"id": 1}], dataset="t")
        task.write([{"id": 2, "100%": 1.5}], dataset="t")
        task.write([{"id": 3}], dataset="t")
        task.close()
    assert rows_of(file) == [(1, None), (2, 1.5), (3, None)]


def test_a_table_is_not_made_unless_that_is_wanted_and_the_statement_is_told(tables, file):
    sink = tables()
    sink.init(parse_config(tables.config_type, config(file)))
    sink.connect("task", 1)
    with pytest.raises(SchemaError) as caught:
        sink.apply_schema("t", pa.schema([("id", pa.int64())]), ())
    assert caught.value.code == "tables.no_table"
    assert caught.value.fix.endswith('CREATE TABLE "t" ("id" BIGINT)')
    assert sink.columns("t") is None
    sink.close()


def test_changes_end_as_they_would_one_by_one(tables, file):
    change = {"delete.enabled": "true"}
    with sink_task(tables, config(file, MAKES, UPSERT, change)) as task:
        task.write([{"__op": 1, "id": n, "v": "a"} for n in range(4)], dataset="t")
        task.write(
            [
                {"__op": Op.UPDATE, "id": 0, "v": "b"},
                {"__op": Op.DELETE, "id": 1, "v": None},
                {"__op": Op.DELETE, "id": 2, "v": None},
                {"__op": Op.CREATE, "id": 2, "v": "c"},
            ],
            dataset="t",
        )
        task.close()
    assert rows_of(file) == [(0, "b"), (2, "c"), (3, "a")]


def test_an_update_that_changes_the_key_moves_the_row(tables, file):
    change = {"delete.enabled": "true"}
    with sink_task(tables, config(file, MAKES, UPSERT, change)) as task:
        task.write([{"__op": 1, "__before": None, "id": 1, "v": "a"}], dataset="t")
        moved = {"__op": 2, "__before": {"id": 1, "v": "a"}, "id": 5, "v": "b"}
        task.write([moved], dataset="t")
        task.close()
    assert rows_of(file) == [(5, "b")]


def test_rows_that_a_column_cannot_hold_are_rejected_alone(tables, file):
    with sink_task(tables, config(file, MAKES, UPSERT)) as task:
        task.write([{"id": 1, "n": 1}], dataset="t")
        rows = [{"id": 2, "n": "2"}, {"id": 3, "n": "x"}, {"id": None, "n": "4"}]
        txn = task.next_txn()
        (result,) = task.put(rows, txn_id=txn, dataset="t")
        assert [(one.row, one.reason.code) for one in result.failed] == [
            (1, "tables.value"), (2, "tables.value"),
        ]  # fmt: skip
        task.prepare(txn, [(0, 0, 1)])
        task.commit(txn)
        task.close()
    assert rows_of(file) == [(1, 1), (2, 2)]


def test_a_task_that_comes_back_goes_on_where_the_ledger_is(tables, file):
    with sink_task(tables, config(file, MAKES)) as task:
        task.write([{"id": 1}], dataset="t")
        txn = task.next_txn()
        task.put([{"id": 2}], txn_id=txn, dataset="t")
        task.prepare(txn, [(0, 0, 1)], token=b"lost")
    with sink_task(tables, config(file), epoch=2) as task:
        assert task.opened.committed.txn_id == 1
        assert task.opened.committed.token == b"token"
    assert rows_of(file) == [(1,)]


def test_an_older_owner_is_fenced(tables, file):
    with sink_task(tables, config(file), epoch=2):
        pass
    with pytest.raises(RemoteError) as caught, sink_task(tables, config(file), epoch=1):
        pass
    assert caught.value.code == "tables.fenced"


def test_keys_that_contradict_each_other_are_refused(tables, file):
    wrong = {
        "insert.mode": "upsert", "delete.enabled": "true", "connection.attempts": "0",
    }  # fmt: skip
    assert sorted(validate(tables, config(file, wrong))) == [
        "tables.delete_needs_key", "tables.negative", "tables.pk_mode",
    ]  # fmt: skip


# ── the rules ────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def made(tables):
    """Return what makes the route of rows of a schema, into a table of the same columns."""

    def route(schema, **keys):
        keys = {"pk_mode": "record_value", "pk_fields": ("id",), **keys}
        given = tables.config_type(connection_url="", **keys)
        columns = [Column(field.name, "any", field) for field in schema if field.name[0] != "_"]
        shape = Shape(TableId("t"), tuple(columns))
        mapping = map_columns(given, schema, ())
        return Route(given, "t", shape, mapping, lambda c: Limit("any", c.field.type))

    return route


def test_a_change_of_some_columns_only_is_rejected(made):
    rows = pa.RecordBatch.from_pylist([{"__op": 6, "id": 1}, {"__op": 1, "id": 2}])
    rejected, fitted = made(rows.schema).fit(rows)
    assert [(row, error.code) for row, error in rejected] == [(0, "tables.patch")]
    assert fitted.columns[0].to_pylist() == [2]


def test_rejected_rows_are_counted_as_they_came(made):
    """Numbers are those of the batch, whatever was left out of it before."""
    ops = [Op.PATCH, Op.DELETE, Op.CREATE, Op.CREATE, Op.DELETE]
    rows = [{"__op": op, "id": n if n != 3 else None} for n, op in enumerate(ops)]
    batch = pa.RecordBatch.from_pylist(rows)
    keys = {"insert_mode": "upsert"}
    rejected, fitted = made(batch.schema, **keys).fit(batch)
    assert [(row, error.code.partition(".")[2]) for row, error in rejected] == [
        (0, "patch"), (1, "delete_disabled"), (3, "value"), (4, "delete_disabled"),
    ]  # fmt: skip
    assert fitted.columns[0].to_pylist() == [2]
    assert fitted.ops is None


def test_a_deletion_may_lack_everything_but_its_key(made):
    schema = pa.schema([("__op", pa.int8()), ("id", pa.int64()), ("must", pa.int64())])
    route = made(schema, insert_mode="upsert", delete_enabled=True)
    rows = [{"__op": 3, "id": 1}, {"__op": 7}, {"__op": 3}, {"__op": 1, "id": 2, "must": 1}]
    rejected, fitted = route.fit(pa.RecordBatch.from_pylist(rows, schema))
    assert [row for row, _ in rejected] == [2]
    assert fitted.ops.to_pylist() == [3, 7, 1]


def test_a_transaction_comes_to_one_statement_of_a_kind_for_each_key(made):
    narrow = pa.schema([("__op", pa.int8()), ("id", pa.int64())])
    wide = narrow.append(pa.field("v", pa.int64()))
    keys = {"insert_mode": "upsert", "delete_enabled": True}
    first, second = made(narrow, **keys), made(wide, **keys)

    def fitted(route, schema, *rows):
        batch = pa.RecordBatch.from_pylist(list(rows), schema)
        return route, [route.fit(batch)[1].batch(with_ops=True)]

    writes = list(plan_writes([
        fitted(first, narrow, {"__op": 1, "id": 1}, {"__op": 1, "id": 2}),
        fitted(second, wide, {"__op": 2, "id": 1, "v": 1}, {"__op": 3, "id": 2}),
        fitted(first, narrow, {"__op": 1, "id": 3}),
    ]))  # fmt: skip
    assert [(w.verb, w.rows.to_pydict()) for w in writes] == [
        (Verb.DELETE, {"c0": [2]}),
        (Verb.UPSERT, {"c0": [1], "c1": [1]}),
        (Verb.UPSERT, {"c0": [3]}),
    ]
