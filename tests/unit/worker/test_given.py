"""Rows that people write down become rows of Arrow."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from penstock.model.errors import ConfigError
from penstock.model.preview_rows import MOST_ROWS, Given
from penstock.worker.admin.preview import rows_of


def test_values_tell_types():
    rows = rows_of(Given(('{"a": 1, "b": "x"}', '{"c": 1.5, "d": {"e": [true]}}')))
    assert rows.schema == pa.schema(
        {
            "a": pa.int64(),
            "b": pa.string(),
            "c": pa.float64(),
            "d": pa.struct({"e": pa.list_(pa.bool_())}),
        }
    )
    assert rows.to_pylist()[1] == {"a": None, "b": None, "c": 1.5, "d": {"e": [True]}}


def test_declared_types_count_more():
    types = {"a": "int8", "on": "date", "price": "decimal(10,2)", "strange `name": "string"}
    rows = rows_of(Given(('{"a": 1, "on": "2026-01-31", "price": "1.50"}',), "", types))
    (row,) = rows.to_pylist()
    assert row == {
        "a": 1,
        "on": dt.date(2026, 1, 31),
        "price": Decimal("1.50"),
        "strange `name": None,
    }


def test_a_column_of_nulls_is_text_and_no_rows_are_rows():
    assert rows_of(Given(('{"a": null}',))).schema.field("a").type == pa.string()
    assert rows_of(Given((), "", {"a": "int64"})).num_rows == 0


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (Given(("[1]",)), "row 1 is no object"),
        (Given(("{",)), "row 1: "),
        (Given(('{"a": 1}', '{"a": "x"}')), "column 'a'"),
        (Given(('{"a": 9223372036854775808}',)), "column 'a'"),
        (Given(('{"a": "x"}',), "", {"a": "int64"}), "'x' is not an integer"),
        (Given(("[" * 100_000,)), "row 1: "),
    ],
)
def test_what_is_no_row_is_refused(given, told):
    with pytest.raises(ConfigError) as caught:
        rows_of(given)
    assert caught.value.code == "rehearsal.rows"
    assert told in caught.value.diagnostic.message


def test_a_type_that_is_none_is_refused():
    with pytest.raises(ConfigError) as caught:
        rows_of(Given(("{}",), "", {"a": "int65"}))
    assert caught.value.diagnostic.config_path == "columns.a"


def test_more_rows_than_travel_with_a_ticket_are_refused():
    with pytest.raises(ConfigError, match=r"rehearsal\.too_much"):
        rows_of(Given(("{}",) * (MOST_ROWS + 1)))
