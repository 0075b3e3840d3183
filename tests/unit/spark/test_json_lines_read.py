"""Rows as JSON lines: what is taken, and how the line that cannot be is told."""

from decimal import Decimal

import pyarrow as pa
import pytest

from penstock.spark.connector_io import json_lines

QUICK = pa.schema([("id", pa.int64()), ("text", pa.string())])
SLOW = pa.schema([("id", pa.int64()), ("raw", pa.binary())])


def test_missing_columns_are_null_in_both_ways():
    assert json_lines.parse_rows(b'{"id":1}\n{}\n', QUICK).to_pylist() == [
        {"id": 1, "text": None},
        {"id": None, "text": None},
    ]
    assert json_lines.parse_rows(b'{"id":1}\n{}\n', SLOW).to_pylist() == [
        {"id": 1, "raw": None},
        {"id": None, "raw": None},
    ]


def test_the_last_line_needs_no_newline():
    assert json_lines.parse_rows(b'{"id":1}', QUICK).num_rows == 1


def test_nothing_is_no_rows():
    assert json_lines.parse_rows(b"", QUICK).num_rows == 0


WRONG = {
    "no JSON": (b'{"id":1}\n{"id":\n', QUICK, "line 2"),
    "no object": (b"[1]\n", QUICK, "line 1: '[1]' is not an object"),
    "another column": (b'{"id":1,"other":2}\n', QUICK, "no column 'other'"),
    "a fraction": (b'{"id":1.5}\n', QUICK, "'1.5' is not an integer"),
    "truth for a number": (b'{"id":true}\n', QUICK, "'True' is not an integer"),
    "a number for a text": (b'{"text":1}\n', QUICK, "'1' is not a string"),
    "too large": (b'{"id":9223372036854775808}\n', QUICK, ""),
    "no base64": (b'{"raw":"###"}\n', SLOW, "line 1"),
    "no date": (b'{"day":"2024-02-30"}\n', pa.schema([("day", pa.date32())]), "line 1"),
    "too many digits": (
        b'{"d":"1.234"}\n', pa.schema([("d", pa.decimal128(10, 2))]), "",
    ),
    "deep": (b'{"id":' + b"[" * 100_000 + b"\n", QUICK, "line 1"),
    "no form": (b'{"u":1}\n', pa.schema([("u", pa.month_day_nano_interval())]), "no form"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("41", pa.decimal128(37, 37)),
        ("1" * 38, pa.decimal128(38, 2)),
        ("123456789", pa.decimal128(10, 2)),
        ("790.9e19", pa.decimal128(38, 38)),
        ("56510e40", pa.decimal128(38, 35)),
    ],
)
@pytest.mark.parametrize("nest", [lambda kind: kind, pa.list_], ids=["plain", "list"])
def test_a_decimal_that_is_too_large_at_its_scale_is_told(text, kind, nest):
    schema = pa.schema([("d", nest(kind))])
    value = '["{}"]' if nest is pa.list_ else '"{}"'
    rows = json_lines.parse_rows(f'{{"d":{value.format("0.25")}}}\n'.encode(), schema)
    assert rows.schema == schema
    assert str(rows.to_pylist()[0]["d"]).count("0.25") == 1
    with pytest.raises(json_lines.InvalidRowsError):
        json_lines.parse_rows(f'{{"d":{value.format(text)}}}\n'.encode(), schema)


@pytest.mark.parametrize(
    "text",
    ["1e-77", "1e-999999999", "1.005", "0." + "0" * 40 + "1", r"1e-\u0037\u0037", "NaN", "1e99"],
)
@pytest.mark.parametrize("more", [[], [("raw", pa.binary())]], ids=["quick", "slow"])
@pytest.mark.parametrize("scale", [2, -2])
def test_a_decimal_that_arrow_cannot_stand_is_told(text, more, scale):
    schema = pa.schema([("d", pa.decimal128(38, scale)), ("s", pa.string()), *more])
    with pytest.raises(json_lines.InvalidRowsError):
        json_lines.parse_rows(f'{{"d":"{text}"}}\n'.encode(), schema)
    good = b'{"d":"1200","s":"1e-99"}\n'
    assert json_lines.parse_rows(good, schema).column("d").to_pylist() == [Decimal(1200)]


@pytest.mark.parametrize("what", WRONG)
def test_a_line_that_is_no_row_is_told(what):
    data, schema, words = WRONG[what]
    with pytest.raises(json_lines.InvalidRowsError) as caught:
        json_lines.parse_rows(data, schema).validate(full=True)
    assert words in str(caught.value)


def test_a_text_that_is_no_utf8_is_found_by_the_check_of_all_frames():
    rows = json_lines.parse_rows(b'{"text":"\xff"}\n', QUICK)
    with pytest.raises(pa.ArrowInvalid, match="UTF8"):
        rows.validate(full=True)
