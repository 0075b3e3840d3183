"""Values that a user sets in rows of dead letters are taken by the types of their columns."""

import json

import pyarrow as pa
import pytest

from penstock.model.errors import ConfigError
from penstock.spark.connector_io.json_lines import parse_rows
from penstock.spark.connector_io.row_edits import edit_row

SCHEMA = pa.schema(
    [
        ("text", pa.string()), ("whole", pa.int32()), ("real", pa.float64()), ("yes", pa.bool_()),
        ("exact", pa.decimal128(10, 2)), ("day", pa.date32()), ("at", pa.timestamp("us", "UTC")),
        ("clock", pa.time64("us")), ("bytes", pa.binary()), ("tags", pa.list_(pa.string())),
        ("span", pa.duration("us")),
    ]
)  # fmt: skip


def edit(**changes):
    """Return the columns of an edited row, which has to be one of the schema."""
    line = edit_row('{"whole":1}', changes, SCHEMA)
    parse_rows(f"{line}\n".encode(), SCHEMA)
    return json.loads(line)


@pytest.mark.parametrize(
    ("column", "value", "found"),
    [
        ("text", "0", "0"), ("text", 0, "0"), ("text", 1.5, "1.5"), ("text", True, "true"),
        ("text", "1.10", "1.10"), ("text", "[1]", "[1]"), ("text", "null", "null"),
        ("whole", "7", 7), ("whole", 7, 7), ("real", "1.5", 1.5), ("real", "NaN", "NaN"),
        ("yes", "false", False), ("exact", "12.5", "12.5"), ("exact", 12, "12"),
        ("day", "2024-12-31", "2024-12-31"), ("at", "2024-12-31T08:30:00Z", "2024-12-31T08:30:00Z"),
        ("clock", "08:30:00", "08:30:00"), ("bytes", "cGVuc3RvY2s=", "cGVuc3RvY2s="),
        ("tags", '["a"]', ["a"]), ("tags", ["a"], ["a"]), ("span", "1000", 1000),
    ],
)  # fmt: skip
def test_a_value_is_taken_by_the_type_of_its_column(column, value, found):
    assert edit(**{column: value})[column] == found


def test_no_value_removes_the_old_one():
    assert edit(whole=None, text="x") == {"text": "x"}


@pytest.mark.parametrize(
    ("column", "value", "example"),
    [
        ("whole", "many", "--set whole=12"), ("whole", "1.5", "--set whole=12"),
        ("yes", "1", "--set yes=true"), ("exact", "12.555", "--set exact=12.50"),
        ("day", "2024-02-30", "--set day=2024-12-31"),
        ("at", "soon", "--set at=2024-12-31T08:30:00Z"), ("tags", "a", "--set tags='[…]'"),
        ("whole", 1 << 40, "--set whole=12"),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_refused_with_one_to_write(column, value, example):
    with pytest.raises(ConfigError) as caught:
        edit_row("{}", {column: value}, SCHEMA, "dead letter 0/3")
    found = caught.value.diagnostic
    assert found.code == "letters.bad_edit"
    assert (
        f"the column {column!r} of dead letter 0/3 is {SCHEMA.field(column).type}" in found.message
    )
    assert str(value) in found.message
    assert example in found.fix


def test_a_column_that_the_row_does_not_have_is_refused_with_those_that_it_has():
    with pytest.raises(ConfigError) as caught:
        edit_row("{}", {"texts": "x"}, SCHEMA)
    assert "Did you mean 'text'?" in caught.value.diagnostic.fix
    assert "whole int32" in caught.value.diagnostic.fix


def test_a_row_that_is_not_changed_is_the_same_text():
    row = '{"big": 12345678901234567890.10}'
    assert edit_row(row, {}, SCHEMA) == row
