"""Files are listed with the columns that a task then finds, wherever they are."""

import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock_builtin.file_source import FileSource, FileSourceConfig
from penstock_connector import RetriableError
from penstock_connector.testing import list_datasets

ROWS = "id,at\n1,2026-01-02\n2,2026-01-03"


def listed(folder, **keys):
    config = {"path": f"{folder}/*", **{k.replace("_", "."): v for k, v in keys.items()}}
    return list_datasets(FileSource, config)


def test_files_have_the_columns_of_their_first_rows(tmp_path, read):
    (tmp_path / "a.csv").write_text(ROWS)  # its last line has no end
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(ROWS.encode()))
    (tmp_path / "c.csv").touch()
    a, b, c = listed(tmp_path, format="csv", dataset="${file}")
    reader = read("a.csv", tail=False, format="csv")
    reader.drain()
    assert a.schema == b.schema == reader.batches[0].rows.schema
    assert (a.name, a.dataset, b.dataset, a.selected) == (f"{tmp_path}/a.csv", "a", "b", True)
    assert (c.schema, c.problem) == (None, None)


def test_containers_tell_their_columns_themselves(tmp_path):
    table = pa.table({"id": pa.array([1], pa.int32()), "tags": pa.array([["x"]])})
    pq.write_table(table, tmp_path / "a.parquet")
    (found,) = listed(tmp_path, format="parquet")
    assert found.schema.names == ["id", "tags"]
    assert found.schema.field("id").type == pa.int32()


def test_a_file_that_cannot_be_read_is_a_problem_of_its_own(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"id": 1}\n')
    (tmp_path / "b.jsonl").write_text("no JSON\n")
    (tmp_path / "c.jsonl").write_text('{"id": 1}\n')
    a, b, c = listed(tmp_path, format="jsonl")
    assert a.schema == c.schema == pa.schema([("id", pa.int64())])
    assert (b.schema, b.problem.code[:5]) == (None, "file.")


def test_a_missing_file_that_is_named_is_a_problem(tmp_path):
    (found,) = list_datasets(FileSource, {"path": str(tmp_path / "none.txt")})
    assert (found.selected, found.problem.code) == (True, "file.missing")


def test_a_place_that_is_away_ends_the_list(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("x\n")

    def away(*_):
        raise RetriableError("file.away", "the disk is away")

    monkeypatch.setattr("penstock_builtin.places.local.LocalPlace.open", away)
    config = FileSourceConfig(path=(str(tmp_path / "a.txt"),))
    with pytest.raises(RetriableError):
        list(FileSource.list_datasets(config))
