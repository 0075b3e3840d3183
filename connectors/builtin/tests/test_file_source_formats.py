"""CSV and JSON lines: types are found once, grow with the rows, and never bend a value."""

import json

import pyarrow as pa
import pytest

from penstock_builtin.file_source import FileSource, FileSourceConfig
from penstock_connector import ConfigError, DataError
from penstock_connector._config import parse_config


def code_of(reader):
    with pytest.raises(DataError) as caught:
        reader.drain()
    return caught.value.code


def test_csv_columns_come_from_the_header_and_have_types(read, tmp_path):
    (tmp_path / "a.csv").write_text('id,price,name,on\n1,1.5,"a, b",2020-01-02\n2,2,x,2020-01-03\n')
    reader = read("a.csv", tail=False, format="csv")
    reader.drain()
    assert reader.batches[0].rows.schema == pa.schema(
        [("id", pa.int64()), ("price", pa.float64()), ("name", pa.string()), ("on", pa.date32())]
    )
    assert reader.rows[0]["name"] == "a, b"


@pytest.mark.parametrize("block", [40, 64, 100, 1 << 20])
def test_csv_goes_on_from_every_offset_with_newlines_inside_quotes(read, tmp_path, block):
    rows = [{"id": n, "text": f'say "{n}"\nand, more\n\n'} for n in range(50)]
    body = "".join('{},"{}"\n'.format(r["id"], r["text"].replace('"', '""')) for r in rows)
    (tmp_path / "a.csv").write_text("id,text\n" + body)
    whole = read("a.csv", tail=False, format="csv", block_bytes=block)
    checkpoints = []
    while whole.step() is not None:
        checkpoints.append((len(whole.rows), dict(whole.offsets)))
    assert whole.rows == rows
    for seen, offsets in checkpoints:
        again = read("a.csv", tail=False, format="csv", offsets=offsets, block_bytes=block)
        assert again.drain() == rows[seen:]


def test_csv_delimiter_and_names_may_be_given(read, tmp_path):
    (tmp_path / "a.tsv").write_text("1\tx\n2\ty\n")
    reader = read(
        "a.tsv", tail=False, format="csv", csv_delimiter="\\t", csv_header=False,
        csv_columns=("id:string", "name"),
    )  # fmt: skip
    assert reader.drain() == [{"id": "1", "name": "x"}, {"id": "2", "name": "y"}]


def test_csv_without_names_is_refused_before_it_starts():
    config = FileSourceConfig(path=("x",), format="csv", csv_header=False)
    (error,) = FileSource.validate(config)
    assert (error.code, error.config_path) == ("config.missing", "csv.columns")
    bad = FileSourceConfig(path=("x",), format="csv", csv_columns=("a:nonsense",))
    assert FileSource.validate(bad)[0].config_path == "csv.columns"


def test_csv_whole_numbers_may_become_fractions_later(read, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("n\n1\n")
    reader = read("a.csv", format="csv")
    reader.drain()
    with path.open("a") as file:
        file.write("2.5\n3\n")
    reader.until(lambda: len(reader.rows) == 3)
    assert [batch.rows.schema.field("n").type for batch in reader.batches] == [
        pa.int64(), pa.float64()
    ]  # fmt: skip


def test_csv_text_in_a_column_of_numbers_is_told(read, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("n\n1\n")
    reader = read("a.csv", format="csv")
    reader.drain()
    with path.open("a") as file:
        file.write("x\n")
    reader.source.files.changed(str(tmp_path), "a.csv", is_folder=False)
    assert code_of(reader) == "file.schema_incompatible"


def test_csv_rows_with_other_columns_fail_or_go_to_the_dead_letters(read, tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n1,2,3\n4,5\n")
    assert code_of(read("a.csv", tail=False, format="csv")) == "file.invalid_csv"
    tolerant = read("a.csv", tail=False, format="csv", invalid_rows="dead-letter")
    assert tolerant.drain() == [{"a": 1, "b": 2}, {"a": 4, "b": 5}]
    assert [raw for raw, _ in tolerant.bad] == [b"1,2,3\n"]


def test_csv_headers_that_name_a_column_twice_are_refused(read, tmp_path):
    (tmp_path / "a.csv").write_text("a,a\n1,2\n")
    assert code_of(read("a.csv", tail=False, format="csv")) == "file.invalid_header"


def test_a_csv_file_of_a_header_alone_has_no_rows(read, tmp_path):
    (tmp_path / "a.csv").write_text("\ufeffa,b\r\n")
    assert read("a.csv", tail=False, format="csv").drain() == []


def test_json_fields_are_columns_and_new_ones_are_added(read, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('\ufeff{"id": 1, "at": "2020-01-02 03:04:05", "none": null}\n\n{"id": 2}\n')
    reader = read("a.jsonl", format="jsonl")
    reader.drain()
    assert reader.rows == [{"id": 1, "at": "2020-01-02 03:04:05"}, {"id": 2, "at": None}]
    with path.open("a") as file:
        file.write('{"id": 3.5, "new": {"x": [1]}}\n')
    reader.until(lambda: len(reader.rows) == 3)
    assert reader.rows[2] == {"id": 3.5, "at": None, "new": {"x": [1]}}


def test_json_goes_on_from_every_offset(read, tmp_path):
    rows = [{"id": n, "name": f"é{n}"} for n in range(100)]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "a").write_text(text)
    whole = read("a", tail=False, format="jsonl", block_bytes=100)
    checkpoints = []
    while whole.step() is not None:
        checkpoints.append((len(whole.rows), dict(whole.offsets)))
    assert whole.rows == rows
    for seen, offsets in checkpoints[::7]:
        assert read("a", tail=False, format="jsonl", offsets=offsets).drain() == rows[seen:]


@pytest.mark.parametrize("line", ["nonsense", "[1]", '{"a":1,"a":2}', '{"a":'])
def test_broken_json_fails_or_goes_to_the_dead_letters(read, tmp_path, line):
    (tmp_path / "a").write_text('{"a":1}\n' + line + '\n{"a":2}\n')
    assert code_of(read("a", tail=False, format="jsonl")) == "file.invalid_json"
    tolerant = read("a", tail=False, format="jsonl", invalid_rows="dead-letter")
    assert tolerant.drain() == [{"a": 1}, {"a": 2}]
    assert [raw for raw, _ in tolerant.bad] == [line.encode() + b"\n"]


@pytest.mark.parametrize("invalid_rows", ["fail", "dead-letter"])
def test_a_json_field_of_another_type_is_told_not_bent(read, tmp_path, invalid_rows):
    path = tmp_path / "a"
    path.write_text('{"a":1}\n')
    reader = read("a", format="jsonl", invalid_rows=invalid_rows)
    reader.drain()
    with path.open("a") as file:
        file.write('{"a":"text"}\n')
    reader.source.files.changed(str(tmp_path), "a", is_folder=False)
    assert code_of(reader) == "file.schema_incompatible"


def test_json_rows_without_any_value_do_not_vanish(read, tmp_path):
    (tmp_path / "a").write_text('{"a":null}\n{"a":null}\n')
    assert read("a", tail=False, format="jsonl").drain() == [{"a": None}, {"a": None}]
    (tmp_path / "b").write_text("{}\n")
    assert code_of(read("b", tail=False, format="jsonl")) == "file.no_columns"


def test_files_with_other_columns_share_one_schema(read, tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "b.csv").write_text("y,z\n3,4\n")
    reader = read("*.csv", tail=False, format="csv")
    assert reader.drain() == [{"x": 1, "y": 2}, {"y": 3, "z": 4}]


@pytest.mark.parametrize(
    ("keys", "path"),
    [
        ({}, "path"),
        ({"path": ("a",), "csv_delimiter": "ab"}, "csv.delimiter"),
        ({"path": ("a",), "block_bytes": 0}, "block.bytes"),
        ({"path": ("a",), "max_line_bytes": 2 << 30}, "max.line.bytes"),
    ],
)
def test_what_cannot_mean_anything_is_refused(keys, path):
    with pytest.raises(ConfigError) as caught:
        FileSourceConfig(**keys)
    assert caught.value.config_path == path


@pytest.mark.parametrize(
    ("form", "shown"),
    [
        ("text", {"text.regex", "encoding"}),
        ("csv", {"csv.header", "encoding"}),
        ("parquet", {"nanoseconds"}),
        ("none such", set()),
    ],
)
def test_a_form_shows_the_keys_of_the_format_alone(form, shown):
    hints = FileSourceConfig.key_hints({"format": form})
    asked = {"text.regex", "csv.header", "encoding", "nanoseconds"}
    assert {name for name in asked if hints[name].visible} == shown


def test_a_form_offers_compressions_that_the_format_has():
    offered = FileSourceConfig.key_hints({"format": "avro"})["compression"]
    for text in offered.recommended_values:
        parse_config(FileSourceConfig, {"path": "x", "format": "avro", "compression": text})
    assert "compression" not in FileSourceConfig.key_hints({"format": "csv"})
