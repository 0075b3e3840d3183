"""JSON lines: each line is one object, values are exact, and no file ends the process.

The differential tests read random files in blocks of random sizes and compare with Python's `json`
and with duckdb.
"""

import datetime as dt
import json
import logging
import random

import duckdb
import pytest

from penstock_builtin.file_source import FileSource, FileSourceConfig
from penstock_builtin.file_source.chunk import Chunk
from penstock_builtin.file_source.json_lines import MAX_LEVELS
from penstock_builtin.file_source.slicing import decoder_for, reading_for
from penstock_connector import ConfigError, DataError

GOOD = '{"a":1}\n{"a":2}\n'


def decode(text, block=1 << 20, **config):
    """Read a text as a file of JSON lines in blocks; returns rows and dead letters."""
    keys = FileSourceConfig(path=("x",), format="jsonl", tail=False, **config)
    decoder, cut = decoder_for(keys), reading_for(keys, None).cut
    data = text if isinstance(text, bytes) else text.encode()
    rows, bad, at = [], [], 0
    while at < len(data):
        size = block
        while (end := cut(bytearray(data[at : at + size]), len(data[at : at + size]), at)) == 0:
            if at + size >= len(data):
                end = len(data) - at
                break
            size *= 2
        before = data[:at].count(b"\n")
        chunk = Chunk(
            bytearray(data[at : at + end]), end, at, "x", at + end == len(data),
            lambda: data[:1000], lambda before=before: before,
        )  # fmt: skip
        decoded = decoder.decode(chunk, "d")
        decoded.rows.validate(full=True)
        rows += decoded.rows.to_pylist()
        bad += decoded.bad
        at += end
    return rows, bad


BROKEN = {
    "null": "null",
    "blank null": "  null ",
    "list": '[{"a":1}]',
    "number": "1",
    "two objects": '{"a":3}{"a":4}',
    "two objects with a space": '{"a":3} {"a":4}',
    "object and comma": '{"a":3},',
    "no end": '{"a":3',
    "a field twice": '{"a":3,"a":4}',
    "too large": '{"a":1e400}',
    "too large and negative": '{"b":[-1e999]}',
    "lone surrogate": '{"b":"\\ud800"}',
    "lone surrogate in a name": '{"\\udfff":1}',
    "Inf": '{"a":Inf}',
    "deep": '{"b":' + "[" * 100 + "]" * 100 + "}",
    "very deep": '{"b":' + "[" * 50_000 + "]" * 50_000 + "}",
    "very deep behind brackets in a text": '{"t":"'
    + "]" * 60_000
    + '","b":'
    + '{"c":' * 50_000
    + "1"
    + "}" * 50_001,
    "a list of several types": '{"b":[1,{"c":1}]}',
    "long whole number": '{"a":' + "9" * 5000 + "}",
}


@pytest.mark.parametrize("line", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_line_that_is_not_one_object_is_a_dead_letter_wherever_it_stands(line, place):
    lines = GOOD.splitlines()
    lines.insert(place, line)
    text = "\n".join(lines) + "\n"
    with pytest.raises(DataError) as caught:
        decode(text)
    assert caught.value.code == "file.invalid_json"
    assert f"x, line {place + 1} is " in caught.value.message
    rows, bad = decode(text, invalid_rows="dead-letter")
    assert [row["a"] for row in rows] == [1, 2]
    assert [raw.decode().rstrip("\n") for raw, _ in bad] == [line]


def test_an_object_over_several_lines_is_refused_line_by_line():
    rows, bad = decode('{"a":1}\n{"a":\n2}\n{"a":{}\n}\n', invalid_rows="dead-letter")
    assert rows == [{"a": 1}]
    assert [raw for raw, _ in bad] == [b'{"a":\n', b"2}\n", b'{"a":{}\n', b"}\n"]


def test_a_file_of_broken_lines_alone_has_no_rows():
    rows, bad = decode("null\n1\n", invalid_rows="dead-letter")
    assert (rows, len(bad)) == ([], 2)


def test_spaces_carriage_returns_and_empty_lines_around_objects_are_no_fault():
    text = '\r\n  {"a":1} \r\n\t\n{"a":2}\r\n' + " " * 200 + '{"a":3}\n\n'
    assert decode(text) == ([{"a": 1}, {"a": 2}, {"a": 3}], [])
    rows, bad = decode('{"a":1}\n\x0b\n', invalid_rows="dead-letter")
    assert (rows, len(bad)) == ([{"a": 1}], 1)


def test_the_deepest_line_that_is_read_arrives_whole():
    levels = MAX_LEVELS - 1
    text = '{"a":' + "[" * levels + "7" + "]" * levels + "}\n"
    assert decode(text)[0] == [json.loads(text)]


@pytest.mark.parametrize(
    "line",
    ['{"a":[null,7]}', '{"a":[null,{"x":5}]}', '{"a":[[null,[1]],null]}', '{"a":{"b":[null,"x"]}}'],
)
def test_lists_that_begin_with_null_arrive_as_they_are(line):
    later = '{"z":0}\n' + line + "\n"
    assert decode(line + "\n")[0] == [json.loads(line)]
    rows, _ = decode(later, block=1)
    assert rows[-1]["a"] == json.loads(line)["a"]


@pytest.mark.parametrize(
    "lines",
    [
        ['{"n":18446744073709551615}'],
        ['{"n":1}', '{"n":9223372036854775808}'],
        ['{"n":9223372036854775808}', '{"n":1}'],
        ['{"n":1.5}', '{"n":9007199254740993}'],
        ['{"n":[{"m":1.5}]}', '{"n":[{"m":9007199254740993}]}'],
        ['{"n":[{"m":1}]}', '{"n":[{"m":-9223372036854775809}]}'],
    ],
)
@pytest.mark.parametrize("block", [1, 1 << 20])
def test_a_whole_number_that_would_lose_digits_is_an_error_or_a_dead_letter(lines, block):
    text = "\n".join(lines) + "\n"
    with pytest.raises(DataError) as caught:
        decode(text, block)
    assert caught.value.code == "file.inexact_number"
    assert "types=n:" in caught.value.fix
    rows, bad = decode(text, block, invalid_rows="dead-letter")
    assert len(bad) == 1
    assert rows == [json.loads(line) for line in lines if line.encode() + b"\n" != bad[0][0]]


def test_a_rejected_number_leaves_the_type_of_its_column_as_it_was():
    text = '{"n":1}\n{"n":18446744073709551615}\n{"n":9007199254740993}\n'
    for block in (1, 1 << 20):
        rows, _ = decode(text, block, invalid_rows="dead-letter")
        assert [row["n"] for row in rows] == [1, 9007199254740993]


def test_whole_numbers_of_a_declared_decimal_keep_their_digits():
    text = '{"n":18446744073709551615,"s":{"m":[18446744073709551615]}}\n{"n":-1}\n'
    rows, _ = decode(text, types=("n:decimal(38", "0)", "s:struct<m:list<decimal(20", "0)>>"))
    assert [row["n"] for row in rows] == [18446744073709551615, -1]
    assert rows[0]["s"] == {"m": [18446744073709551615]}


def test_whole_numbers_that_doubles_hold_are_rows():
    text = '{"n":9223372036854776000}\n{"n":1e300}\n{"n":100000000000000000000}\n{"n":0.5}\n'
    assert [row["n"] for row in decode(text)[0]] == [9223372036854776000.0, 1e300, 1e20, 0.5]


@pytest.mark.parametrize("value", ["[]", "[null]", "{}", "[{}]", "[[]]"])
def test_a_column_of_empty_values_is_left_out_with_a_warning(value, caplog):
    text = f'{{"b":1,"a":{value}}}\n' * 3
    with caplog.at_level(logging.WARNING):
        assert decode(text, 1)[0] == [{"b": 1}] * 3
    (record,) = caplog.records
    assert "file.untyped_column" in record.getMessage()
    assert "'a'" in record.getMessage()


def test_a_column_of_nulls_is_left_out_without_a_warning(caplog):
    assert decode('{"b":1,"a":null}\n')[0] == [{"b": 1}]
    assert not caplog.records


def test_declared_lists_and_structs_are_kept_when_they_are_empty():
    types = ("a:list<int64>", "s:struct<x:int64", " y:list<decimal(10", "2)>>")
    rows, _ = decode('{"a":[],"s":{}}\n{"a":[1],"s":{"y":[1.25]}}\n', 1, types=types)
    assert [row["a"] for row in rows] == [[], [1]]
    assert rows[0]["s"] == {"x": None, "y": None}
    assert rows[0].keys() == {"a", "s"}
    assert str(rows[1]["s"]["y"]) == "[Decimal('1.25')]"


@pytest.mark.parametrize(
    ("types", "form"),
    [
        ("a:list<nonsense>", "jsonl"),
        ("a:struct<x>", "jsonl"),
        ("a:struct<x:int64,x:int64>", "jsonl"),
        ("a:map<x>", "jsonl"),
        ("a:list<int64>", "csv"),
    ],
)
def test_types_with_parts_that_mean_nothing_are_refused(types, form):
    with pytest.raises(ConfigError) as caught:
        FileSourceConfig(path=("x",), format=form, types=tuple(types.split(",")))
    assert caught.value.config_path == "types"


def test_fields_that_a_declared_struct_does_not_have_are_left_out():
    text = '{"s":{"x":1,"z":null,"at":"2020-01-01"}}\n'
    for block in (1, 1 << 20):
        assert decode(text * 3, block, types=("s:struct<x:int64>",))[0] == [{"s": {"x": 1}}] * 3


@pytest.mark.parametrize("block", [1, 1 << 20])
def test_declared_dates_and_times_of_the_day_are_texts_in_json(block):
    types = ("d:date", "t:time", "s:struct<d:date,l:list<time32[ms]>>", "n:int64")
    row = '{"n":1,"d":"2020-02-29","t":"23:59:59.123456","s":{"d":"0001-01-01","l":["12:00",null]}}'
    nothing = '{"n":2,"d":null,"s":{"d":null,"l":null}}'
    rows, bad = decode(f'{row}\n{nothing}\n{{"n":3}}\n{row}\n', block, types=types)
    wanted = {
        "d": dt.date(2020, 2, 29),
        "t": dt.time(23, 59, 59, 123456),
        "s": {"d": dt.date(1, 1, 1), "l": [dt.time(12), None]},
        "n": 1,
    }
    assert not bad
    assert [rows[0], rows[3]] == [wanted] * 2
    assert rows[1] == {"n": 2, "d": None, "t": None, "s": {"d": None, "l": None}}
    assert rows[2] == {"n": 3, "d": None, "t": None, "s": None}


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("date", '"2020-01-02"', ['"2020-1-2"', '"2020-02-30"', '""', '"x"', "5", "true", "[]",
                                  '"2020-01-02T00:00:00"']),
        ("time", '"12:00:00.5"', ['"24:00:00"', '"12:00:00.1234567"', '"12:00:00Z"', '""', "5",
                                  '"2020-01-02"']),
        ("time32[s]", '"12:00:05"', ['"12:00:05.5"', "5"]),
        ("list<date>", '["2020-01-02"]', ['["2020-01-02","x"]', "[5]"]),
        ("struct<x:time>", '{"x":"12:00"}', ['{"x":"12:60"}']),
    ],
)  # fmt: skip
def test_what_is_no_declared_date_or_time_is_a_bad_row(kind, good, bad):
    for value in bad:
        lines = [f'{{"a":{one},"n":{n}}}\n' for n, one in enumerate((good, value, good))]
        types = (f"a:{kind}",)
        rows, rejected = decode("".join(lines), types=types, invalid_rows="dead-letter")
        assert [row["n"] for row in rows] == [0, 2]
        ((raw, error),) = rejected
        assert raw.decode() == lines[1]
        assert error.code == "file.invalid_json"
        assert "x, line 2 " in error.message
        with pytest.raises(DataError):
            decode("".join(lines), types=types)


@pytest.mark.parametrize("kind", ["duration[us]", "float16", "list<duration[us]>"])
def test_a_type_that_no_json_is_of_is_refused_before_the_start(kind):
    keys = FileSourceConfig(path=("x",), format="jsonl", types=(f"a:{kind}",))
    (error,) = FileSource.validate(keys)
    assert (error.code, error.config_path) == ("config.invalid_value", "types")
    assert "column 'a'" in error.message


def test_an_empty_list_alone_is_a_row():
    assert decode('{"a":[]}\n')[0] == [{"a": []}]


def value_of(chance, kind, depth=0):
    """Return a random value of a random type, or null."""
    if chance.random() < 0.2:
        return None
    match kind:
        case "text":
            return chance.choice(
                ["", "é", "\u2028", "{}", '"', "\\", "a\nb", "}", "null", "x" * 30]
            )
        case "whole":
            return chance.choice([0, -1, 7, 2**53 + 1, 2**63 - 1, -(2**63)])
        case "fraction":
            return chance.choice([0.5, -1e300, 1e-7, 3.0])
        case "truth":
            return chance.random() < 0.5
        case ("list", item):
            return [value_of(chance, item) for _ in range(chance.choice([0, 1, 2, 3]))]
        case ("object", fields):
            return {name: value_of(chance, k) for name, k in fields if chance.random() < 0.8}
    raise AssertionError(kind)


def kind_of(chance, depth=0):
    """Return a random type."""
    kinds = ["text", "whole", "fraction", "truth", "list", "object"]
    kind = chance.choice(kinds[: 6 if depth < 3 else 4])
    if kind == "list":
        return kind, kind_of(chance, depth + 1)
    if kind == "object":
        return kind, [(f"f{n}", kind_of(chance, depth + 1)) for n in range(chance.choice([1, 2]))]
    return kind


def pruned(value):
    """Return a value without what stands for nothing: nulls of objects, and lists and objects that
    have none but empty parts, whose type a reader cannot know.
    """
    if isinstance(value, dict):
        return {k: p for k, v in value.items() if (p := pruned(v)) not in (None, {}, [])} or None
    if isinstance(value, list):
        return [pruned(item) for item in value] if any(map(_has_value, value)) else None
    return value


def _has_value(value):
    if isinstance(value, dict | list):
        return any(map(_has_value, value.values() if isinstance(value, dict) else value))
    return value is not None


def test_random_rows_are_read_as_python_reads_them():
    for seed in range(1500):
        chance = random.Random(seed)
        fields = [(name, kind_of(chance)) for name in "abc"]
        rows = [value_of(chance, ("object", fields)) or {} for _ in range(chance.randint(1, 12))]
        rows = [{"id": n, **row} for n, row in enumerate(rows)]
        text = "".join(
            json.dumps(row, ensure_ascii=chance.random() < 0.5)
            + chance.choice(["\n", "\r\n", "\n\n"])
            for row in rows
        )
        block = chance.choice([1, 50, 300, 1 << 20])
        read, bad = decode(text, block)
        assert not bad
        assert list(map(pruned, read)) == list(map(pruned, rows)), (seed, block, text)


def test_random_damage_ends_in_dead_letters_of_just_the_lines_that_python_refuses():
    codes = set()
    for seed in range(1500):
        chance = random.Random(seed)
        lines = [json.dumps({"a": n, "t": "x{}[]", "l": [{"m": n}]}) for n in range(6)]
        for _ in range(chance.choice([1, 1, 2])):
            at = chance.randrange(len(lines))
            line, place = lines[at], chance.randrange(len(lines[at]) + 1)
            piece = chance.choice(
                ["{", "}", "[", "]", '"', ",", ":", "null", " ", "\\", "", "{}", "\r"]
            )
            lines[at] = line[:place] + piece + line[place + chance.choice([0, 1, 3]) :]
        good, refused = [], []
        for line in lines:
            try:
                row = json.loads(line, object_pairs_hook=once)
                (good if isinstance(row, dict) else refused).append(line)
            except ValueError:
                refused += [line] if line.strip(" \t\r") else []
        text = "\n".join(lines) + "\n"
        block = chance.choice([1, 60, 1 << 20])
        try:
            rows, bad = decode(text, block, invalid_rows="dead-letter")
        except DataError as error:
            codes.add(error.code)
            continue
        assert [raw.decode().removesuffix("\n") for raw, _ in bad] == refused, (seed, block, text)
        expected = [pruned(json.loads(line)) for line in good]
        assert list(map(pruned, rows)) == expected, (seed, block, text)
    assert codes == {"file.schema_incompatible"}  # a mark of a number's text made it one


def once(pairs):
    """Refuse a field that is there twice."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError("twice")
    return dict(pairs)


def test_random_files_are_read_as_duckdb_reads_them(tmp_path):
    for seed in range(40):
        chance = random.Random(seed)
        kinds = [("w", "whole"), ("f", "fraction"), ("t", "text"), ("l", ("list", "whole"))]
        rows = [
            {"id": n, **{name: value_of(chance, kind) for name, kind in kinds}} for n in range(60)
        ]
        path = tmp_path / f"{seed}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        found = duckdb.sql(f"select * from read_json('{path}', format='newline_delimited')")
        names = list(found.columns)
        expected = [dict(zip(names, row, strict=True)) for row in found.fetchall()]
        read, _ = decode(path.read_bytes(), chance.choice([2000, 1 << 20]))
        assert [{name: row.get(name) for name in names} for row in read] == expected
