"""Rows that could not be read are read again from their bytes, as Read would have given them."""

import json
from datetime import date

import pyarrow as pa
import pytest

from penstock_connector import ConnectorError, RawRow
from penstock_connector.testing import parse_rows, source_task
from penstock_net import HttpSource
from support.web import Reply

CSV = Reply("id,on\n1,2026-01-02\n2,soon\n", headers={"Content-Type": "text/csv"})


def keys_of(web, **more):
    keys = {"url": web.url, "tail": "false", "invalid.rows": "dead-letter"}
    return keys | {name.replace("_", "."): str(value) for name, value in more.items()}


def parsed(web, raw, changes=None, **more):
    raw = raw if isinstance(raw, bytes) else raw.encode()
    row = RawRow(raw, {"url": web.url}, "", changes or {})
    (found,) = parse_rows(HttpSource, keys_of(web, **more), [row])
    return found


def refused(found, code):
    assert isinstance(found, ConnectorError), found
    assert (found.code, bool(found.fix)) == (code, True)


@pytest.mark.parametrize(
    ("reply", "more", "changes", "good"),
    [
        (Reply([{"id": 1, "on": "2026-01-02"}, {"id": 2, "on": "soon"}]),
         {"columns": "id:long,on:date"}, {"on": "2026-02-03"}, {"id": 2, "on": date(2026, 2, 3)}),
        (CSV, {"columns": "id:int,on:date"}, {"on": "2026-02-03"},
         {"id": 2, "on": date(2026, 2, 3)}),
        (Reply([{"j": {"a": 1}, "n": "1"}, {"j": 2, "n": "x"}]), {"columns": "j:json,n:long"},
         {"n": 5, "j": "[1]"}, {"j": "[1]", "n": 5}),
    ],
)  # fmt: skip
def test_a_row_that_fits_no_type_has_the_columns_of_the_others(web, reply, more, changes, good):
    web.answer = lambda asked: reply
    with source_task(HttpSource, keys_of(web, **more)) as task:
        task.all_rows()
        (bad,) = [f.bad_row for f in task.seen if f.HasField("bad_row")]
        (read,) = task.schemas.values()
    refused(parsed(web, bad.raw, **more), "http.bad_value")
    found = parsed(web, bad.raw, changes, **more)
    assert found.to_pylist() == [good]
    assert found.schema.equals(read)


def test_a_broken_line_has_the_types_of_its_neighbours(web):
    web.answer = lambda asked: Reply('{"a": 1, "b": 0.5}\nno\n{"a": 2}')
    found = parsed(web, '{"a": 3}', format="jsonl")
    assert found.to_pylist() == [{"a": 3, "b": None}]
    assert found.schema.types == [pa.int64(), pa.float64()]
    assert parsed(web, '{"a": 3}', {"b": "1"}, format="jsonl").to_pylist() == [{"a": 3, "b": 1.0}]
    refused(parsed(web, "no", format="jsonl"), "http.not_json")
    refused(parsed(web, '[{"a": 1}, {"a": 2}]', format="jsonl"), "http.not_one_row")


def test_a_line_may_have_its_row_inside_and_a_row_of_a_document_has_not(web):
    web.answer = lambda asked: Reply({"d": [{"a": 1}]})
    for raw in ('{"d": {"a": 3}}', '{"a": 3}'):
        assert parsed(web, raw, rows_pointer="/d", columns="a:long").to_pylist() == [{"a": 3}]


def test_a_column_that_is_not_declared_cannot_be_set(web):
    refused(parsed(web, '{"a": 1}', {"b": 2}, columns="a:long"), "http.value_not_set")


def test_a_message_is_read_by_its_converter(web):
    more = {"value_converter": "json", "columns": ""}
    del more["columns"]
    more["value.converter.schemas.enable"] = "false"
    web.answer = lambda asked: Reply([{"a": 1}])
    found = parsed(web, json.dumps({"a": 3}), **more)
    assert found.to_pylist()[0]["a"] == 3
    refused(parsed(web, "{}", {"a": 1}, **more), "http.value_not_set")
