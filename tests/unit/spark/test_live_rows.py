"""What a person who looks is shown: some rows as text, in a report that stays small."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from penstock.model.ticket import SlotTicket, Ticket
from penstock.spark.connector_io import live_rows
from tests.unit.spark.test_engine import FUSED, UPPER
from tests.unit.spark.tiny_plugin import SCHEMA


def batch(*rows: dict) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows))


def look(batches, rows=10, row_bytes=4096):
    return live_rows.sample_rows({"rows": rows, "row_bytes": row_bytes}, batches)


def test_some_rows_are_shown_and_all_are_counted():
    written = look([batch({"a": 1}, {"a": 2}), batch({"a": 3}), batch({"a": 4})], rows=3)
    assert written.rows == 4
    assert written.detail == {
        "rows": [['{"a": 1}', False, "0", None], ['{"a": 2}', False, "1", None],
                 ['{"a": 3}', False, "2", None]],
    }  # fmt: skip


def test_offset_and_time_are_apart_from_the_row():
    row = {"__offset": b"lsn-7", "__ts_us": 5, "__op": 1, "a": "x"}
    other = {**row, "__offset": b"\xff"}
    assert look([batch(row, other)]).detail["rows"] == [
        ['{"__op": 1, "a": "x"}', False, "lsn-7", 5],
        ['{"__op": 1, "a": "x"}', False, "/w==", 5],
    ]


def test_every_value_is_valid_json():
    row = {
        "bytes": b"\x00\xff", "date": date(2026, 1, 2), "decimal": Decimal("1.20"),
        "time": datetime(2026, 1, 2, 3, 4, 5, 6, UTC), "nan": float("nan"), "none": None,
        "list": [{"x": b"a"}, None], "text": "ä\n", "true": True,
    }  # fmt: skip
    ((text, cut, _, _),) = look([batch(row)]).detail["rows"]
    assert not cut
    assert json.loads(text) == {
        "bytes": "AP8=", "date": "2026-01-02", "decimal": "1.20",
        "time": "2026-01-02T03:04:05.000006+00:00", "nan": "nan", "none": None,
        "list": [{"x": "YQ=="}, None], "text": "ä\n", "true": True,
    }  # fmt: skip


def test_a_long_row_is_cut_and_a_report_never_grows(monkeypatch):
    monkeypatch.setattr(live_rows, "MAX_REPORT_BYTES", 100)
    rows = look([batch(*({"a": "ä" * 100} for _ in range(50)))], rows=50, row_bytes=40).detail
    assert [row[1] for row in rows["rows"]] == [True] * len(rows["rows"])
    assert sum(len(row[0].encode()) for row in rows["rows"]) <= 100
    assert len(rows["rows"]) < 50


@pytest.mark.parametrize(
    ("steps", "name"), [([], "n1000"), ([FUSED], "N1000"), ([UPPER], "N1000")],
    ids=["read", "fused", "jvm"],
)  # fmt: skip
def test_rows_are_shown_by_executors_in_both_kinds_of_plan(loop, engine, plugin, steps, name):
    plan = engine.build("t#look", SCHEMA, steps, 1)
    slot = plugin.ticket("t", [[1]]).slots[0]
    place = {"kind": "live_rows", "rows": 2, "row_bytes": 100}
    ticket = Ticket("t#look", 1, 0, (SlotTicket(0, slot.rows, slot.read, place),))
    for _ in range(2):  # a batch may be read again
        (report,) = loop.run_until_complete(engine.run(plan, ticket))
        assert report.error is None
        assert (report.rows_in, report.rows_out) == (1000, 900 if steps else 1000)
        texts = [json.loads(text) for text, *_ in report.detail["rows"]]
        assert texts == [{"id": 1000, "name": name}, {"id": 1001, "name": f"{name[:-1]}1"}]
    assert plugin.put == {}  # nothing is written
