"""Functions of the user: found only in the node's folders, called by batch or row, and a row that
fails is rejected with the line of the file.
"""

import pickle

import pyarrow as pa
import pytest

from penstock.model.errors import ConfigError, DataError
from penstock.model.step import ROW, RejectingKernel
from penstock.transform.configuration import Extensions, build_chain
from penstock.transform.functions.code import import_function
from penstock.transform.functions.column_declaration import parse_columns

SCHEMA = pa.schema({"id": pa.int64(), "name": pa.string(), "__op": pa.int8()})
ROWS = pa.RecordBatch.from_pylist(
    [{"id": n, "name": "abc"[n], "__op": n} for n in range(3)], SCHEMA
)
FUNCTIONS = """
import pyarrow as pa
import pyarrow.compute as pc


def shout(batch):
    name = pc.utf8_upper(batch["name"])
    return batch.set_column(1, "name", name)


def picky(batch):
    if 1 in batch["id"].to_pylist():
        raise ValueError("not 1")
    return batch.select(["id"])


def half(batch):
    return batch.slice(0, 1)


def table(batch):
    return pa.Table.from_batches([batch]).select(["id"])


def nothing(batch):
    return None


def other(batch):
    return pa.table({"zzz": [1] * batch.num_rows})


def row(row):
    if row["id"] == 1:
        return 10 // (row["id"] - 1)
    return {"id": row["id"] * 2, "text": f"{row['name']}{row['__op']}"}


def some(row):
    return None if row["id"] == 1 else {"id": row["id"]}


def odd(row):
    return [{"id": 1}, {"id": "x"}, {"zzz": 1}][row["id"]]


def listed(row):
    return [row]


def late(row):
    import nowhere


def tiny(row):
    from decimal import Decimal
    return {"d": [Decimal("1.5"), Decimal("1e-77"), "2.50"][row["id"]]}


def tiny_texts(batch):
    texts = ["1.5", "1e-77", "2.50"]
    return pa.table({"d": [texts[number] for number in batch["id"].to_pylist()]})
"""


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "functions"
    (folder / "deep").mkdir(parents=True)
    (folder / "mine.py").write_text(FUNCTIONS)
    (folder / "deep" / "down.py").write_text("def f(row):\n    return row\n")
    (folder / "bad.py").write_text("def f(:\n")
    (folder / "loads.py").write_text("x = 1\nraise OSError('no')\ndef f(row): ...\n")
    (tmp_path / "outside.py").write_text("def f(row): ...\n")
    (folder / "link.py").symlink_to(tmp_path / "outside.py")
    return folder


def config(**keys):
    own = {f"transforms.t.{key}": value for key, value in keys.items()}
    return {"transforms": "t", "transforms.t.type": "python"} | own


def kernel(folder, schema=SCHEMA, **keys):
    (step,) = build_chain(config(**keys), Extensions(functions=[folder])).compile("d", schema).steps
    assert step.only_kernel
    assert step.can_reject_rows
    return pickle.loads(pickle.dumps(step.kernel))


def numbered(batch=ROWS, first=100):
    return batch.append_column(ROW, pa.array(range(first, first + batch.num_rows), pa.int64()))


def test_a_function_of_batches_changes_columns_and_keeps_the_reserved(folder):
    rows, failed = kernel(folder, function="mine:shout").split_rejected(numbered())
    assert failed == []
    assert rows.to_pylist()[1] == {"id": 1, "name": "B", "__op": 1, ROW: 101}


def test_a_batch_that_fails_is_halved_down_to_the_failing_row(folder):
    found = kernel(folder, function="mine:picky", columns="id int64")
    rows, ((row, reason),) = found.split_rejected(numbered())
    assert rows.to_pylist() == [{"id": 0, "__op": 0, ROW: 100}, {"id": 2, "__op": 2, ROW: 102}]
    assert (row, reason.code) == (101, "transform.function_failed")
    assert reason.config_path == "transforms.t.function"
    assert "ValueError: not 1" in reason.message
    assert f"{folder / 'mine.py'}, line 13" in reason.message


def test_without_row_numbers_a_failing_row_fails_the_batch(folder):
    with pytest.raises(DataError) as caught:
        kernel(folder, function="mine:picky", columns="id int64")(ROWS)
    assert caught.value.code == "transform.function_failed"


def test_a_function_may_return_fewer_rows_with_their_reserved_columns(folder):
    rows, failed = kernel(folder, function="mine:half").split_rejected(numbered())
    assert failed == []
    assert rows.to_pylist() == [{"id": 0, "name": "a", "__op": 0, ROW: -1}]


def test_a_table_is_accepted_as_a_batch(folder):
    rows, _ = kernel(folder, function="mine:table", columns="id int32").split_rejected(numbered())
    assert rows.schema.field("id").type == pa.int32()
    assert rows["id"].to_pylist() == [0, 1, 2]


@pytest.mark.parametrize(("function", "says"), [("nothing", "NoneType"), ("other", "`zzz`")])
def test_an_invalid_result_of_a_function_of_batches_rejects_its_rows(folder, function, says):
    rows, failed = kernel(folder, function=f"mine:{function}").split_rejected(numbered())
    assert rows.num_rows == 0
    assert [row for row, _ in failed] == [100, 101, 102]
    assert {reason.code for _, reason in failed} == {"transform.function_gave"}
    assert says in failed[0][1].message


def test_a_function_of_rows_returns_dicts(folder):
    found = kernel(folder, function="mine:row", mode="row", columns="text string, id int64")
    rows, ((row, reason),) = found.split_rejected(numbered())
    assert rows.schema.names == ["text", "id", "__op", ROW]
    assert rows.to_pylist() == [
        {"text": "a0", "id": 0, "__op": 0, ROW: 100},
        {"text": "c2", "id": 4, "__op": 2, ROW: 102},
    ]
    assert row == 101
    assert "ZeroDivisionError" in reason.message
    assert "line 35)" in reason.message


def test_none_drops_a_row(folder):
    rows, failed = kernel(folder, function="mine:some", mode="row").split_rejected(numbered())
    assert (rows["id"].to_pylist(), failed) == ([0, 2], [])
    assert rows["name"].to_pylist() == [None, None]


def test_a_value_of_another_type_and_an_undeclared_column_reject_rows(folder):
    found = kernel(folder, function="mine:odd", mode="row", columns="id int64")
    rows, failed = found.split_rejected(numbered())
    assert rows["id"].to_pylist() == [1]
    assert {row: reason.code for row, reason in failed} == {
        101: "transform.function_gave",
        102: "transform.function_gave",
    }


@pytest.mark.parametrize(("function", "mode"), [("tiny", "row"), ("tiny_texts", "batch")])
def test_a_number_that_does_not_fit_a_decimal_rejects_its_row(folder, function, mode):
    """Arrow makes 0 of it."""
    found = kernel(folder, function=f"mine:{function}", mode=mode, columns="d decimal(9,2)")
    rows, failed = found.split_rejected(numbered())
    assert [str(value) for value in rows["d"].to_pylist()] == ["1.50", "2.50"]
    assert [(row, reason.code) for row, reason in failed] == [(101, "transform.function_gave")]


def test_a_list_is_refused_as_a_row(folder):
    _, failed = kernel(folder, function="mine:listed", mode="row").split_rejected(numbered())
    assert len(failed) == 3
    assert "list" in failed[0][1].message


def test_an_import_that_fails_in_a_row_is_reported_with_its_line(folder):
    _, failed = kernel(folder, function="mine:late", mode="row").split_rejected(numbered())
    assert "No module named 'nowhere'" in failed[0][1].message
    assert "line 52)" in failed[0][1].message


def test_a_module_is_run_only_when_there_are_rows(folder):
    found = kernel(folder, function="loads:f", mode="row")
    assert found(ROWS.slice(0, 0)).num_rows == 0
    with pytest.raises(ConfigError) as caught:
        found.split_rejected(numbered())
    assert caught.value.code == "transform.function_not_loaded"
    assert "line 2" in caught.value.diagnostic.message


def test_a_change_of_the_file_takes_effect_at_the_next_start(folder):
    before = kernel(folder, function="deep.down:f", mode="row")
    (folder / "deep" / "down.py").write_text("def f(row):\n    return {'id': 9}\n")
    after = kernel(folder, function="deep.down:f", mode="row")
    assert before.split_rejected(numbered())[0]["id"].to_pylist() == [0, 1, 2]
    assert after.split_rejected(numbered())[0]["id"].to_pylist() == [9, 9, 9]


def test_a_file_is_loaded_once_in_a_process(folder):
    found = kernel(folder, function="mine:row", mode="row")
    assert import_function(found.code) is import_function(pickle.loads(pickle.dumps(found.code)))


def test_a_function_is_a_kernel_that_can_reject_rows(folder):
    assert isinstance(kernel(folder, function="mine:row", mode="row"), RejectingKernel)


@pytest.mark.parametrize(
    ("function", "code"),
    [
        ("mine", "bad_function_name"),
        ("../outside:f", "bad_function_name"),
        ("/etc/passwd:f", "bad_function_name"),
        ("mine:f()", "bad_function_name"),
        ("link:f", "no_function_file"),
        ("nope:f", "no_function_file"),
        ("bad:f", "bad_function_file"),
        ("mine:nope", "no_function"),
        ("mine:pc", "no_function"),
    ],
)
def test_an_invalid_function_name_or_file_is_refused(folder, function, code):
    with pytest.raises(ConfigError) as caught:
        build_chain(config(function=function), Extensions(functions=[folder]))
    found = caught.value.diagnostic
    assert (found.code, found.config_path) == (f"transform.{code}", "transforms.t.function")
    assert found.fix


def test_a_node_without_folders_runs_no_functions():
    with pytest.raises(ConfigError) as caught:
        build_chain(config(function="mine:f"))
    assert caught.value.code == "transform.functions_off"
    assert "functions.path" in caught.value.diagnostic.fix


def test_columns_of_all_types_are_declared():
    text = (
        "a int8, `b c` decimal(10, 2), c list<struct<x: int64, y: map<string, timestamp>>>, "
        "d timestamp_ntz, e BOOLEAN"
    )
    assert parse_columns(text, "p") == pa.schema(
        {
            "a": pa.int8(),
            "b c": pa.decimal128(10, 2),
            "c": pa.list_(
                pa.struct({"x": pa.int64(), "y": pa.map_(pa.string(), pa.timestamp("us", "UTC"))})
            ),
            "d": pa.timestamp("us"),
            "e": pa.bool_(),
        }
    )


@pytest.mark.parametrize(
    "text",
    ["", "a", "a int31", "a int8,", "a int8 b int8", "a int8, a int8", "a list<int8", "a decimal",
     "a decimal(99,1)", "a map<int8>", "`a int8", "a " + "list<" * 20 + "int8" + ">" * 20],
)  # fmt: skip
def test_invalid_declarations_of_columns_are_refused(text):
    with pytest.raises(ConfigError) as caught:
        parse_columns(text, "p")
    assert caught.value.code == "transform.bad_columns"


def test_a_reserved_column_cannot_be_declared():
    with pytest.raises(ConfigError) as caught:
        parse_columns("__op int8", "p")
    assert caught.value.code == "transform.reserved_column"
