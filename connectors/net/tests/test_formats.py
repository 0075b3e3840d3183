"""Answers as rows: formats, types, and rows that cannot be."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from penstock_connector.testing import RemoteError, source_task
from penstock_net import HttpSource
from penstock_net.http_source.columns import Columns
from penstock_net.http_source.pointer import MISSING, Pointer
from penstock_net.web.headers import next_link
from support.web import Reply


def read(web, reply, **more):
    web.answer = lambda asked: reply
    keys = {"url": web.url, "tail": "false"}
    keys |= {name.replace("_", "."): str(value) for name, value in more.items()}
    with source_task(HttpSource, keys) as task:
        rows = task.all_rows()
        bad = [f.bad_row for f in task.seen if f.HasField("bad_row")]
        return (rows, bad) if "invalid_rows" in more else rows


JSONL = '{"a": 1}\n\n{"a": 2, "b": "x"}\n'


@pytest.mark.parametrize(
    ("reply", "more", "rows"),
    [
        (Reply({"a": 1}), {}, [{"a": 1}]),
        (Reply([1, 2]), {}, [{"value": 1}, {"value": 2}]),
        (Reply({"d": {"i": [{"a": 1}]}}), {"rows_pointer": "/d/i"}, [{"a": 1}]),
        (Reply({"d": None}), {"rows_pointer": "/d"}, []),
        (Reply(JSONL), {"format": "jsonl"}, [{"a": 1, "b": None}, {"a": 2, "b": "x"}]),
        (Reply(JSONL, headers={"Content-Type": "application/x-ndjson"}), {},
         [{"a": 1, "b": None}, {"a": 2, "b": "x"}]),
        (Reply('a;b\n1;"x\ny"\n', headers={"Content-Type": "text/csv; charset=utf-8"}),
         {"csv_delimiter": ";"}, [{"a": 1, "b": "x\ny"}]),
        (Reply(b"\n"), {}, []),
        (Reply(status=204), {}, []),
        (Reply(status=404), {"empty_statuses": "404"}, []),
        (Reply([{"a": None}]), {}, [{"a": None}]),
        (Reply([{"a": 1, "b": None}, {"a": 1.5}]), {}, [{"a": 1.0}, {"a": 1.5}]),
        (Reply([{"a": {"b": [], "c": 1}}]), {}, [{"a": {"c": 1}}]),
    ],
)  # fmt: skip
def test_answers_are_rows(web, reply, more, rows):
    assert read(web, reply, **more) == rows


def test_declared_columns_have_their_types_exactly(web):
    kinds = "b:boolean,i:int,n:decimal(20;3),d:date,t:timestamp,x:bytes,j:json,s:string,f:double"
    row = {
        "b": True, "i": "7", "d": "2026-01-02", "x": "AAE=",
        "t": "2026-01-02T03:04:05+01:00", "j": {"k": [1]}, "s": 5, "f": 2, "more": "left out",
    }  # fmt: skip
    text = '{"n": 12345678901234567.125, ' + json.dumps(row).removeprefix("{")
    assert read(web, Reply(text), columns=kinds) == [
        {
            "b": True, "i": 7, "n": Decimal("12345678901234567.125"), "d": date(2026, 1, 2),
            "t": datetime(2026, 1, 2, 2, 4, 5, tzinfo=UTC), "x": b"\x00\x01", "j": '{"k": [1]}',
            "s": "5", "f": 2.0,
        }
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int", 2**31), ("int", 1.5), ("int", True), ("boolean", 1), ("date", "soon"),
        ("timestamp", 5), ("decimal(3;1)", 12.25), ("decimal(3;1)", 1234), ("bytes", "%"),
        ("double", "x"), ("decimal(9;2)", "1e-999999999"), ("decimal(9;2)", "1e-77"),
    ],
)  # fmt: skip
def test_a_value_that_its_column_cannot_hold_is_a_bad_row_and_its_neighbours_pass(web, kind, value):
    reply = Reply([{"c": None}, {"c": value}, {"c": None}])
    with pytest.raises(RemoteError) as caught:
        read(web, reply, columns=f"c:{kind}")
    assert caught.value.code == "http.bad_value"
    rows, bad = read(web, reply, columns=f"c:{kind}", invalid_rows="dead-letter")
    assert rows == [{"c": None}] * 2
    assert [row.reason.code for row in bad] == ["http.bad_value"]


@pytest.mark.parametrize("kind", ["int", "decimal(9;2)"])
@pytest.mark.parametrize("number", ["1e999999999", "1e-999999999"])
def test_a_number_of_any_exponent_is_a_bad_row(web, kind, number):
    reply = Reply(f'[{{"c": 1}}, {{"c": {number}}}, {{"c": 2}}]')
    rows, bad = read(web, reply, columns=f"c:{kind},d:decimal(9;2)", invalid_rows="dead-letter")
    assert [row["c"] for row in rows] == [1, 2]
    assert [row.reason.code for row in bad] == ["http.bad_value"]


def test_a_number_that_no_decimal_can_be_is_no_json(web):
    with pytest.raises(RemoteError) as caught:
        read(web, Reply('[{"c": 1e99999999999999999999}]'), columns="c:decimal(9;2)")
    assert caught.value.code == "http.not_json"


def test_a_broken_line_is_a_bad_row(web):
    rows, bad = read(
        web, Reply('{"a": 1}\nno\n{"a": 2}'), format="jsonl", invalid_rows="dead-letter"
    )
    assert [row["a"] for row in rows] == [1, 2]
    assert [row.reason.code for row in bad] == ["http.not_json"]


@pytest.mark.parametrize("rows", [[{"a": 1}, {"a": "x"}], [{"a": 2**70}], [{"a": [1, "x"]}]])
def test_rows_without_types_in_common_are_told_how_to_get_them(web, rows):
    with pytest.raises(RemoteError) as caught:
        read(web, Reply(rows))
    assert caught.value.code == "http.schema_incompatible"
    assert "columns=" in caught.value.diagnostic.fix


def test_types_grow_from_answer_to_answer_and_never_shrink():
    columns = Columns(())
    first, _ = columns.of([{"a": 1, "n": {"x": 1}}])
    second, _ = columns.of([{"a": 1.5, "b": "t", "n": {"y": 2}}])
    third, _ = columns.of([{"a": 2}])
    assert [str(f.type) for f in first.schema] == ["int64", "struct<x: int64>"]
    assert third.schema.equals(second.schema)
    assert third.to_pylist() == [{"a": 2.0, "n": None, "b": None}]
    assert second.to_pylist() == [{"a": 1.5, "n": {"x": None, "y": 2}, "b": "t"}]


@pytest.mark.parametrize(
    ("pointer", "found"),
    [("", {"a/b": [{"~": 1}]}), ("/a~1b/0/~0", 1), ("/a~1b/1", MISSING), ("/x", MISSING)],
)
def test_pointers_are_those_of_the_standard(pointer, found):
    assert Pointer(pointer, "p").of({"a/b": [{"~": 1}]}) == found


@pytest.mark.parametrize(
    ("header", "link"),
    [
        ('<https://x/?a=1,2&b>; rel="next"', "https://x/?a=1,2&b"),
        ('<a>; rel="prev", <b>; title="x, <y>; rel=no"; rel="last next"', "b"),
        ("<c>;REL=NEXT", "c"),
        ("<d>; rel=nextish", ""),
        ("", ""),
    ],
)
def test_the_next_page_is_found_in_a_link_header(header, link):
    assert next_link(header) == link
