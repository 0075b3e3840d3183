"""Lines that could not be read, read again: as they are, corrected, or with values set by name."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from penstock_builtin.file_source import FileSource
from penstock_connector import ConnectorError, RawRow
from penstock_connector.testing import parse_rows

PEOPLE = b"id,name,joined,zip\n1,Ada,2024-01-01,00123\n2,Grace,2024-02-30,04567\n3,Alan\n"
TYPES = {"format": "csv", "types": "joined:date,zip:string"}


def parse(path, *rows, **config):
    """Return the rows of (bytes, changes), or the errors."""
    raw = [RawRow(data, {"file": str(path)}, changes=changes) for data, changes in rows]
    found = parse_rows(FileSource, {"file": str(path), "tail": "false", **config}, raw)
    return [one if isinstance(one, ConnectorError) else one.to_pylist()[0] for one in found]


@pytest.fixture
def people(tmp_path):
    file = tmp_path / "people.csv"
    file.write_bytes(PEOPLE)
    return file


def test_a_line_of_csv_gets_the_columns_and_types_of_its_file(people):
    bad, corrected, replaced = parse(
        people,
        (b"2,Grace,2024-02-30,04567\n", {}),
        (b"2,Grace,2024-02-30,04567\n", {"joined": "2024-02-29"}),
        (b'2,"Grace, Adm.",2024-02-29,04567', {}),
        **TYPES,
    )
    assert bad.code == "file.invalid_csv"
    assert "the row of" in bad.message
    assert "'joined' is no date32[day]" in bad.message
    row = {"id": 2, "name": "Grace", "joined": dt.date(2024, 2, 29), "zip": "04567"}
    assert corrected == row
    assert replaced == row | {"name": "Grace, Adm."}


def test_values_of_csv_are_written_as_fields(people):
    (row,) = parse(
        people,
        (b"3,Alan\n", {"joined": "2024-05-01", "zip": 0, "name": 'A "T", M.\nT.'}),
        **TYPES,
    )
    assert row == {
        "id": 3, "name": 'A "T", M.\nT.', "joined": dt.date(2024, 5, 1), "zip": "0",
    }  # fmt: skip
    (row,) = parse(people, (b"3,Alan,soon,1\n", {"joined": None}), **TYPES)
    assert row["joined"] is None
    escaped = {"csv.quote": "", "csv.escape": "\\", **TYPES}
    (row,) = parse(people, (b"3,Alan,2024-05-01,1\n", {"name": "a\\b,c"}), **escaped)
    assert row["name"] == "a\\b,c"


@pytest.mark.parametrize("null", ["", "NA"])
def test_a_text_that_reads_like_no_value_stays_a_text(people, null):
    keys = {**TYPES, "csv.null": null}
    (row,) = parse(people, (b"3,Alan,2024-05-01,1\n", {"name": null}), **keys)
    assert row["name"] == null
    (row,) = parse(people, (b"3,Alan,2024-05-01,1\n", {"name": None}), **keys)
    assert row["name"] is None
    (error,) = parse(
        people, (b"3,Alan,2024-05-01,1\n", {"name": null}), **keys, **{"csv.quote": ""}
    )
    assert error.code == "file.value_not_set"


@pytest.mark.parametrize(
    ("raw", "changes", "says"),
    [
        (b"3,Alan\n", {"joined": "2024-05-01"}, "Set 'zip', too"),
        (b"3,Alan,x,y,z\n", {"joined": "2024-05-01"}, "5 columns instead of 4"),
        (b"3,Alan,x,y\n", {"Joined": "2024-05-01"}, "Did you mean 'joined'"),
    ],
)
def test_a_value_that_has_no_place_in_the_line_is_refused(people, raw, changes, says):
    (error,) = parse(people, (raw, changes), **TYPES)
    assert error.code == "file.value_not_set"
    assert says in str(error)
    assert "--raw" in error.fix


def test_a_value_that_no_field_can_hold_is_refused(people):
    (error,) = parse(people, (b"3,A,x,y\n", {"name": "a,b"}), **{"csv.quote": ""}, **TYPES)
    assert error.code == "file.value_not_set"
    assert "csv.quote" in error.message


def test_bytes_are_exactly_one_row(people):
    two, none = parse(people, (b"3,A,2024-05-01,1\n4,B,2024-05-01,1\n", {}), (b"\n", {}), **TYPES)
    assert (two.code, none.code) == ("file.not_one_row", "file.not_one_row")
    assert "2 rows" in two.message


def test_types_that_are_not_declared_are_those_of_the_file(tmp_path):
    file = tmp_path / "n.csv"
    file.write_bytes(b"a,b\n1.5,x\n2.25,y\n")
    found = parse_rows(
        FileSource,
        {"file": str(file), "format": "csv"},
        [RawRow(b"3,z\n", {"file": str(file)}), RawRow(b"many,z\n", {"file": str(file)})],
    )
    assert found[0].schema == pa.schema([("a", pa.float64()), ("b", pa.string())])
    assert found[1].code == "file.schema_incompatible"


def test_of_a_file_that_is_gone_the_configuration_names_the_columns(tmp_path):
    gone = tmp_path / "gone.csv"
    (error,) = parse(gone, (b"1,x\n", {}), format="csv")
    assert error.code == "file.header_gone"
    assert "csv.columns" in error.fix
    named = {"csv.columns": "a:int32,b", "csv.header": "false"}
    assert parse(gone, (b"1,x\n", {"b": "y"}), format="csv", **named) == [{"a": 1, "b": "y"}]


def test_a_line_of_json_takes_values_by_the_types_of_its_columns(tmp_path):
    file = tmp_path / "in.jsonl"
    file.write_text('{"id": 1, "name": "Ada", "tags": ["a"]}\n{"id": "x", "name": 5}\n')
    config = {"format": "jsonl", "types": "id:int64,name:string,price:decimal(10,2)"}
    raw = b'{"id": "x", "name": "Al", "price": "1"}\n'
    bad, row, broken = parse(
        file,
        (raw, {}),
        (raw, {"id": "2", "name": "0", "price": 1.5, "tags": '["b"]'}),
        (b"{ no json\n", {"id": "2"}),
        **config,
    )
    assert bad.code == "file.invalid_json"
    assert row == {"id": 2, "name": "0", "price": Decimal("1.50"), "tags": ["b"]}
    assert broken.code == "file.value_not_set"
    assert "is not JSON" in broken.message
    assert parse(file, (b'{"id": 7}', {}), **config)[0]["id"] == 7


def test_a_number_of_the_line_that_would_lose_digits_is_not_written_again(tmp_path):
    file = tmp_path / "in.jsonl"
    file.write_text('{"id": 1}\n')
    (error,) = parse(
        file, (b'{"id": "x", "n": 1.2345678901234567890123}\n', {"id": 2}), format="jsonl"
    )
    assert error.code == "file.value_not_set"
    assert "lose digits" in error.message


def test_lines_of_other_encodings_are_read_again_as_the_text_that_they_are(tmp_path):
    file = tmp_path / "in.csv"
    file.write_bytes("név,n\nÁdám,1\n".encode("utf-16"))
    (row,) = parse(file, ("Éva,2\n".encode(), {"n": "3"}), format="csv", encoding="utf-16")
    assert row == {"név": "Éva", "n": 3}


def test_lines_that_a_pattern_must_match_are_replaced_as_a_whole(tmp_path):
    file = tmp_path / "in.log"
    file.write_text("GET 200\n")
    pattern = {"text.regex": r"(?P<verb>\w+) (?P<status>\d+)", "types": "status:int32"}
    whole, part = parse(file, (b"PUT 404", {}), (b"PUT", {"status": "404"}), **pattern)
    assert whole == {"verb": "PUT", "status": 404}
    assert part.code == "file.value_not_set"


def test_rows_of_containers_are_no_lines(tmp_path):
    (error,) = parse(tmp_path / "a.parquet", (b"{}", {}), format="parquet")
    assert error.code == "file.not_lines"
