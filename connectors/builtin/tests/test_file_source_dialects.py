"""Dialects of CSV, encodings, patterns of text, declared types: and what is told of a bad line."""

import codecs
import decimal
import json
import random

import pyarrow as pa
import pytest

from penstock_builtin.file_source import FileSource, FileSourceConfig
from penstock_builtin.file_source.cutting import cut_lines
from penstock_builtin.file_source.declared import joined_items, parse_columns
from penstock_builtin.file_source.encoding import encoded_cut
from penstock_builtin.file_source.records import Dialect, cut_records
from penstock_connector import ConfigError, DataError


def error_of(reader):
    with pytest.raises(DataError) as caught:
        reader.drain()
    return caught.value


def every_offset(read, path, rows, **config):
    """Read a file, and again from every place where that could have been interrupted."""
    whole = read(path, tail=False, **config)
    checkpoints = []
    while whole.step() is not None:
        checkpoints.append((len(whole.rows), dict(whole.offsets)))
    assert whole.rows == rows
    assert len(checkpoints) > 1
    for seen, offsets in checkpoints:
        assert read(path, tail=False, **config, offsets=offsets).drain() == rows[seen:]


# ── CSV ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("block", [50, 200])
def test_an_escape_takes_the_meaning_of_quotes_and_newlines_away(read, tmp_path, block):
    rows = [{"id": n, "text": f'say "{n}", or\nnot'} for n in range(40)]
    body = "".join('{},"{}"\n'.format(r["id"], r["text"].replace('"', '\\"')) for r in rows)
    (tmp_path / "a.csv").write_text("id,text\n" + body)
    every_offset(read, "a.csv", rows, format="csv", csv_escape="\\", block_bytes=block)


def test_an_escape_works_without_quotes(read, tmp_path):
    (tmp_path / "a.csv").write_text("a,b\nx\\,y,1\n")
    reader = read("a.csv", tail=False, format="csv", csv_quote="", csv_escape="\\")
    assert reader.drain() == [{"a": "x,y", "b": 1}]


def test_cuts_know_escapes():
    cut = cut_records(Dialect(b",", b'"', b"\\"), strict=True, header=True)
    for data, wanted in [
        (b'a\n"b\\"\n', 2), (b'"b\\""\nc', 6), (b"a\\\nb\n", 5), (b'"\\\\"\nx', 5), (b'"\n', 0),
    ]:  # fmt: skip
        assert cut(bytearray(data), len(data), 0) == wanted, data


def test_a_header_may_have_newlines_inside_its_names(read, tmp_path):
    (tmp_path / "a.csv").write_text('"i\nd","te""xt"\n1,x\n2,y\n')
    rows = [{"i\nd": 1, 'te"xt': "x"}, {"i\nd": 2, 'te"xt': "y"}]
    every_offset(read, "a.csv", rows, format="csv", block_bytes=18)


@pytest.mark.parametrize(
    ("null", "rows"),
    [
        (None, [{"a": "NULL", "b": None}, {"a": "", "b": 1}, {"a": "\\N", "b": 2}]),
        ("\\N", [{"a": "NULL", "b": ""}, {"a": "", "b": "1"}, {"a": None, "b": "2"}]),
        ("", [{"a": "NULL", "b": None}, {"a": None, "b": 1}, {"a": "\\N", "b": 2}]),
    ],
)
def test_what_stands_for_no_value_may_be_told(read, tmp_path, null, rows):
    (tmp_path / "a.csv").write_text("a,b\nNULL,\n,1\n\\N,2\n")
    assert read("a.csv", tail=False, format="csv", csv_null=null).drain() == rows


def test_a_quoted_null_is_a_text(read, tmp_path):
    (tmp_path / "a.csv").write_text('a,b\n"",1\n,2\n')
    rows = [{"a": "", "b": 1}, {"a": None, "b": 2}]
    assert read("a.csv", tail=False, format="csv", csv_null="").drain() == rows


def test_types_may_be_declared(read, tmp_path):
    (tmp_path / "a.csv").write_text("id,price,at\n007,1.5,2026-01-02T03:04:05Z\n")
    types = ("id:string", "price:decimal(10", "2)", "at:timestamp[ms", "UTC]")
    reader = read("a.csv", tail=False, format="csv", types=types)
    reader.drain()
    assert reader.batches[0].rows.schema == pa.schema(
        [("id", pa.string()), ("price", pa.decimal128(10, 2)), ("at", pa.timestamp("ms", "UTC"))]
    )
    assert reader.rows[0]["price"] == decimal.Decimal("1.50")


def test_a_value_that_is_not_of_its_declared_type_is_a_bad_row(read, tmp_path):
    (tmp_path / "a.csv").write_text('id,t\n1,"a\nb"\nx,c\n3,d\n')
    config = {"tail": False, "format": "csv", "types": ("id:int64",)}
    error = error_of(read("a.csv", **config))
    assert error.code == "file.invalid_csv"
    assert "a.csv, line 4 " in error.message
    assert "'x,c'" in error.message
    tolerant = read("a.csv", **config, invalid_rows="dead-letter")
    assert tolerant.drain() == [{"id": 1, "t": "a\nb"}, {"id": 3, "t": "d"}]
    assert [raw for raw, _ in tolerant.bad] == [b"x,c\n"]


@pytest.mark.parametrize("number", ["1e-77", "1e-999999999", "1.00000000000000000000000000009"])
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_number_that_its_decimal_cannot_be_is_a_bad_row(read, tmp_path, form, number):
    """Arrow takes some of them for others, and dies of some."""
    line = {"csv": "{},{}\n", "jsonl": '{{"n":"{}","t":"{}"}}\n'}[form].format
    head = "n,t\n" if form == "csv" else ""
    lines = [line("1.5", "1e-99"), line(number, "b"), line("2.50", "3fe-4567")]
    (tmp_path / "a").write_text(head + "".join(lines))
    config = {"tail": False, "format": form, "types": ("n:decimal(38", "2)")}
    assert error_of(read("a", **config)).code == f"file.invalid_{form.removesuffix('l')}"
    tolerant = read("a", **config, invalid_rows="dead-letter")
    assert tolerant.drain() == [
        {"n": decimal.Decimal("1.50"), "t": "1e-99"},
        {"n": decimal.Decimal("2.50"), "t": "3fe-4567"},
    ]
    assert [raw for raw, _ in tolerant.bad] == [lines[1].encode()]


DECIMAL_LINES = {"csv": "{},{}\n", "jsonl": '{{"n":{},"t":{}}}\n', "texts": '{{"n":"{}","t":{}}}\n'}


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        ("41", "decimal(37,37)"),
        ("1" * 38, "decimal(38,2)"),
        ("-" + "7" * 37, "decimal(38,2)"),
        ("123456789", "decimal(10,2)"),
        ("56510e40", "decimal(38,35)"),
        ("658808125E5", "decimal(34,30)"),
        ("790.9E+19", "decimal(38,38)"),
        ("7e10", "decimal(38,30)"),
        ("174339736758371463086871", "decimal(38,18)"),
    ],
)
@pytest.mark.parametrize("form", DECIMAL_LINES)
def test_a_number_that_is_too_large_for_its_decimal_is_a_bad_row(
    read, tmp_path, form, number, kind
):
    """Arrow takes some of them for others."""
    lines = [DECIMAL_LINES[form].format(one, n) for n, one in enumerate(("0.25", number, "-0.5"))]
    (tmp_path / "a").write_text("n,t\n" * (form == "csv") + "".join(lines))
    config = {"tail": False, "format": form.replace("texts", "jsonl")}
    reader = read("a", **config, invalid_rows="dead-letter", types=tuple(f"n:{kind}".split(",")))
    assert [(str(row["n"]).rstrip("0"), row["t"]) for row in reader.drain()] == [
        ("0.25", 0), ("-0.5", 2)
    ]  # fmt: skip
    assert [raw.decode() for raw, _ in reader.bad] == [lines[1]]


@pytest.mark.parametrize("form", DECIMAL_LINES)
def test_random_decimals_are_exact_or_bad_rows(read, tmp_path, form):
    chance = random.Random(7)
    for _ in range(60):
        digits = chance.choice([10, 20, 38])
        scale = chance.choice([one for one in (0, 2, 9, 18, 30, 37) if one <= digits])
        numbers = [random_number(chance) for _ in range(chance.choice([1, 2, 30]))]
        lines = [DECIMAL_LINES[form].format(one, n) for n, one in enumerate(numbers)]
        (tmp_path / "a").write_text("n,t\n" * (form == "csv") + "".join(lines))
        reader = read(
            "a", tail=False, format=form.replace("texts", "jsonl"), invalid_rows="dead-letter",
            types=(f"n:decimal({digits}", f"{scale})"),
        )  # fmt: skip
        rows = {row["t"]: row["n"] for row in reader.drain()}
        assert rows == {n: decimal.Decimal(one) for n, one in enumerate(numbers)
                        if has_digits(one, digits, scale)}  # fmt: skip
        assert len(reader.bad) == len(numbers) - len(rows)


def random_number(chance):
    whole = "".join(chance.choices("0123456789", k=chance.choice([1, 3, 9, 19, 28, 36, 38, 45])))
    text = chance.choice(["", "-"]) + (whole.lstrip("0") or "0")
    if chance.random() < 0.5:
        text += "." + "".join(chance.choices("0001239", k=chance.choice([1, 2, 5, 18, 25])))
    if chance.random() < 0.3:
        text += chance.choice(["e", "E", "e+", "e-", "E-0"]) + str(chance.choice([0, 1, 5, 18, 35]))
    return text


def has_digits(text, digits, scale):
    with decimal.localcontext(prec=100):
        shifted = decimal.Decimal(text).scaleb(scale)
        return shifted == shifted.to_integral_value() and abs(shifted) < 10**digits


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_decimal_may_count_hundreds(read, tmp_path, form):
    (tmp_path / "a").write_text("n\n1200\n" if form == "csv" else '{"n":"1200"}\n')
    reader = read("a", tail=False, format=form, types=("n:decimal(5", "-2)"))
    assert reader.drain() == [{"n": decimal.Decimal("1.2E+3")}]


@pytest.mark.parametrize("invalid_rows", ["fail", "dead-letter"])
def test_the_line_of_a_row_with_other_columns_is_told(read, tmp_path, invalid_rows):
    (tmp_path / "a.csv").write_text("a,b\n" + "1,2\n" * 100 + "1,2,3\n" + "4,5\n")
    config = {"tail": False, "format": "csv", "block_bytes": 64, "invalid_rows": invalid_rows}
    reader = read("a.csv", **config)
    if invalid_rows == "fail":
        error = error_of(reader)
    else:
        reader.drain()
        ((_, error),) = reader.bad
        assert len(reader.rows) == 101
    assert "a.csv, line 102 " in error.message
    assert "1,2,3" in error.message


# ── encodings ────────────────────────────────────────────────────────────────────────────────────

SOME = [f"grüße {n} — schön" if n % 3 else f"plain {n}" for n in range(60)]


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-16-be", "utf-32", "utf-8-sig"])
def test_lines_of_other_encodings(read, tmp_path, encoding):
    (tmp_path / "a").write_bytes("".join(f"{line}\r\n" for line in SOME).encode(encoding))
    rows = [{"line": line} for line in SOME]
    every_offset(read, "a", rows, encoding=encoding, block_bytes=400)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-16-be"])
def test_csv_of_other_encodings(read, tmp_path, encoding):
    rows = [{"id": n, "täxt": f'"ü"\n{n} ∀'.replace("∀", "a")} for n in range(40)]
    body = "".join('{},"{}"\n'.format(r["id"], r["täxt"].replace('"', '""')) for r in rows)
    (tmp_path / "a").write_bytes(("id,täxt\n" + body).encode(encoding))
    every_offset(read, "a", rows, format="csv", encoding=encoding, block_bytes=300)


@pytest.mark.parametrize("mark", [codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE])
def test_the_mark_of_a_file_says_the_order_of_its_bytes(read, tmp_path, mark):
    order = "utf-16-be" if mark == codecs.BOM_UTF16_BE else "utf-16-le"
    (tmp_path / "a").write_bytes(mark + "Ċ1\nĊ2\n".encode(order))  # U+010A: a newline in a half
    assert read("a", tail=False, encoding="utf-16").drain() == [{"line": "Ċ1"}, {"line": "Ċ2"}]


def test_a_byte_of_a_newline_inside_a_character_cuts_nothing():
    cut = encoded_cut(cut_lines, "utf-16-le")
    data = "aĊ\n∀".encode("utf-16-le")
    assert cut(bytearray(data), len(data), 0) == 6
    quoted = encoded_cut(cut_records(Dialect(b","), strict=True, header=True), "utf-16-le")
    data = '∢\n"a\nb'.encode("utf-16-le")  # U+2222: two bytes of a quote
    assert quoted(bytearray(data), len(data), 0) == 4


@pytest.mark.parametrize("invalid", ["fail", "replace", "dead-letter"])
def test_what_is_not_of_the_encoding_is_told_replaced_or_set_apart(read, tmp_path, invalid):
    (tmp_path / "a").write_bytes(b"good\nb\x81d\nfine\n")  # 0x81 is nothing in cp1252
    reader = read("a", tail=False, encoding="cp1252", invalid_utf8=invalid)
    if invalid == "fail":
        assert "a, line 2 is not of the encoding" in error_of(reader).message
        return
    reader.drain()
    assert reader.lines == (["good", "b�d", "fine"] if invalid == "replace" else ["good", "fine"])


def test_a_line_that_is_not_utf8_is_told_by_its_number(read, tmp_path):
    (tmp_path / "a").write_bytes(b"x\n" * 1000 + b"\xff here\n")
    error = error_of(read("a", tail=False, block_bytes=100))
    assert "a, line 1001 is not of the encoding: '\\\\xff here'" in error.message
    assert error.code == "file.invalid_utf8"


# ── patterns of text ─────────────────────────────────────────────────────────────────────────────

LOG = r'(?P<host>\S+) (?P<status>\d+|-) "(?P<what>[^"]*)"'


def test_named_groups_are_columns(read, tmp_path):
    (tmp_path / "a.log").write_text('h1 200 "GET /"\nh2 - ""\n')
    reader = read("a.log", tail=False, text_regex=LOG)
    assert reader.drain() == [
        {"host": "h1", "status": "200", "what": "GET /"},
        {"host": "h2", "status": "-", "what": ""},
    ]


def test_groups_have_declared_types_and_lines_that_do_not_fit_are_told(read, tmp_path):
    (tmp_path / "a.log").write_text('h 200 "x"\nnonsense\nh - "y"\nh 404 "z"\n')
    config = {"tail": False, "text_regex": LOG, "types": ("status:int32",)}
    error = error_of(read("a.log", **config))
    assert error.code == "file.no_match"
    assert "a.log, line 2: does not match `text.regex`: 'nonsense'" in error.message
    tolerant = read("a.log", **config, invalid_rows="dead-letter")
    assert [row["status"] for row in tolerant.drain()] == [200, 404]
    assert tolerant.batches[0].rows.schema.field("status").type == pa.int32()
    assert [raw for raw, _ in tolerant.bad] == [b"nonsense\n", b'h - "y"\n']
    assert "'status' is no int32" in tolerant.bad[1][1].message


@pytest.mark.parametrize(
    ("keys", "path"),
    [
        ({"text_regex": "(unnamed)"}, "text.regex"),
        ({"text_regex": "no group"}, "text.regex"),
        ({"text_regex": "(?P<a>"}, "text.regex"),
        ({"text_regex": "(?P<a>x)(?=y)"}, "text.regex"),
        ({"text_regex": "(?P<a>x)", "types": ("b:int64",)}, "types"),
    ],
)
def test_patterns_that_cannot_be_are_refused_before_the_start(keys, path):
    (error,) = FileSource.validate(FileSourceConfig(path=("x",), **keys))
    assert error.config_path == path


# ── JSON lines ───────────────────────────────────────────────────────────────────────────────────


def test_json_fields_have_declared_types(read, tmp_path):
    rows = [{"n": 1, "at": "2026-01-02T03:04:05"}, {"n": 2, "at": None, "more": "x"}]
    (tmp_path / "a").write_text("".join(json.dumps(row) + "\n" for row in rows))
    reader = read("a", tail=False, format="jsonl", types=("at:timestamp[us]", "n:int32"))
    reader.drain()
    kept = reader.batches[0].rows.schema
    assert (kept.field("at").type, kept.field("n").type) == (pa.timestamp("us"), pa.int32())


def test_a_json_value_that_is_not_of_its_declared_type_is_a_bad_row(read, tmp_path):
    (tmp_path / "a").write_text('{"n":1}\n{"n":"x"}\n{"n":3}\n')
    config = {"tail": False, "format": "jsonl", "types": ("n:int64",)}
    error = error_of(read("a", **config))
    assert error.code == "file.invalid_json"
    assert "a, line 2 is not of the declared types" in error.message
    tolerant = read("a", **config, invalid_rows="dead-letter")
    assert tolerant.drain() == [{"n": 1}, {"n": 3}]


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────


def test_commas_inside_brackets_end_no_item():
    assert joined_items(["a:decimal(1", "2)", "b:timestamp[us", "UTC]", "c"]) == [
        "a:decimal(1,2)", "b:timestamp[us,UTC]", "c"
    ]  # fmt: skip
    names, types = parse_columns(["a:b:int64"], "types")
    assert (names, types) == (("a:b",), {"a:b": pa.int64()})


@pytest.mark.parametrize(
    ("keys", "path"),
    [
        ({"csv_escape": "ab"}, "csv.escape"),
        ({"csv_quote": "ab"}, "csv.quote"),
        ({"csv_quote": "é"}, "csv.quote"),
        ({"encoding": "klingon"}, "encoding"),
        ({"encoding": "base64"}, "encoding"),
        ({"types": ("a:nonsense",)}, "types"),
        ({"types": ("a:decimal(2", "3)")}, "types"),
        ({"types": ("a:timestamp[us", "Nowhere/Else]")}, "types"),
        ({"names_regex": "("}, "names.regex"),
    ],
)
def test_what_cannot_mean_anything_is_refused(keys, path):
    with pytest.raises(ConfigError) as caught:
        FileSourceConfig(path=("a",), **keys)
    assert caught.value.config_path == path
