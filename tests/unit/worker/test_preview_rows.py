"""Rows of a preview request become rows of Arrow."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from penstock.model.errors import ConfigError
from penstock.model.inspection import MAX_PREVIEW_ROWS, PreviewRequest
from penstock.worker.admin.preview import read_preview_rows


def test_types_are_inferred_from_values():
    rows = read_preview_rows(
        PreviewRequest(('{"a": 1, "b": "x"}', '{"c": 1.5, "d": {"e": [true]}}'))
    )
    assert rows.schema == pa.schema(
        {
            "a": pa.int64(),
            "b": pa.string(),
            "c": pa.float64(),
            "d": pa.struct({"e": pa.list_(pa.bool_())}),
        }
    )
    assert rows.to_pylist()[1] == {"a": None, "b": None, "c": 1.5, "d": {"e": [True]}}


def test_declared_types_take_precedence():
    types = {"a": "int8", "on": "date", "price": "decimal(10,2)", "strange `name": "string"}
    rows = read_preview_rows(
        PreviewRequest(('{"a": 1, "on": "2026-01-31", "price": "1.50"}',), "", types)
    )
    (row,) = rows.to_pylist()
    assert row == {
        "a": 1,
        "on": dt.date(2026, 1, 31),
        "price": Decimal("1.50"),
        "strange `name": None,
    }


def test_a_column_of_nulls_is_text_and_no_rows_are_allowed():
    assert read_preview_rows(PreviewRequest(('{"a": null}',))).schema.field("a").type == pa.string()
    assert read_preview_rows(PreviewRequest((), "", {"a": "int64"})).num_rows == 0


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (PreviewRequest(("[1]",)), "row 1 is not an object"),
        (PreviewRequest(("{",)), "row 1: "),
        (PreviewRequest(('{"a": 1}', '{"a": "x"}')), "column 'a'"),
        (PreviewRequest(('{"a": 9223372036854775808}',)), "column 'a'"),
        (PreviewRequest(('{"a": "x"}',), "", {"a": "int64"}), "'x' is not an integer"),
        (PreviewRequest(("[" * 100_000,)), "row 1: "),
    ],
)
def test_a_value_that_is_not_a_row_is_refused(given, told):
    with pytest.raises(ConfigError) as caught:
        read_preview_rows(given)
    assert caught.value.code == "rehearsal.rows"
    assert told in caught.value.diagnostic.message


def test_an_unknown_type_is_refused():
    with pytest.raises(ConfigError) as caught:
        read_preview_rows(PreviewRequest(("{}",), "", {"a": "int65"}))
    assert caught.value.diagnostic.config_path == "columns.a"


def test_more_rows_than_a_ticket_carries_are_refused():
    with pytest.raises(ConfigError, match=r"rehearsal\.too_much"):
        read_preview_rows(PreviewRequest(("{}",) * (MAX_PREVIEW_ROWS + 1)))
