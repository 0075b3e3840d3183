"""Folders by field and time, sizes, compression, Avro: what was written is what is read."""

import datetime as dt
import decimal
import gzip
import json

import fastavro
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from penstock_builtin.file_sink import FileSinkConfig
from penstock_builtin.file_sink.partitions import NOTHING, Partitions, escaped, parse_terms
from penstock_builtin.file_source import FileSource, FileSourceConfig
from penstock_connector import ConfigError, SchemaError

AT = dt.datetime(2026, 1, 2, 23, 30, tzinfo=dt.UTC)


def tree(folder):
    """Files by their folder, without what is hidden."""
    found = {}
    for path in sorted(folder.rglob("*")):
        inner = path.relative_to(folder)
        if path.is_file() and not any(part.startswith(".") for part in inner.parts):
            found.setdefault(str(inner.parent), []).append(path)
    return found


def read_back(path, **config):
    source = FileSource()
    source.init(FileSourceConfig(path=(str(path),), tail=False, recursive=True, **config))
    source.connect(FileSource.plan(source.config, 1, []))
    rows = []
    while (batch := source.read_batch()) is not None:
        rows += batch.rows.to_pylist()
    source.close()
    return rows


# ── folders ──────────────────────────────────────────────────────────────────────────────────────


def test_rows_go_to_the_folders_of_their_values_in_their_order(writer, tmp_path):
    sink = writer(path="out", format="jsonl", partition_by=("land", "n"))
    rows = [{"land": "de" if i % 3 else "fr", "n": i % 2, "v": i} for i in range(20)]
    sink.write(rows[:10], rows[10:])
    found = tree(tmp_path / "out")
    assert set(found) == {f"land={land}/n={n}" for land in ("de", "fr") for n in (0, 1)}
    for folder, (path,) in found.items():
        land, n = (part.partition("=")[2] for part in folder.split("/"))
        wanted = [{"v": r["v"]} for r in rows if (r["land"], str(r["n"])) == (land, n)]
        assert [json.loads(line) for line in path.read_text().splitlines()] == wanted


def test_files_in_folders_are_gone_on_with_and_fields_may_be_kept(writer, tmp_path):
    sink = writer(path="out", format="csv", partition_by=("a",), partition_keep=True)
    for n in range(3):
        sink.write([{"a": n % 2, "b": n}])
    found = tree(tmp_path / "out")
    assert [path.read_text() for path in found["a=0"]] == ['"a","b"\n0,0\n0,2\n']


def test_other_tools_read_the_folders_as_columns(writer, tmp_path):
    sink = writer(path="out", format="parquet", partition_by=("land",))
    sink.write([{"land": "a b/ü%", "v": 1}, {"land": "de", "v": 2}])
    table = ds.dataset(tmp_path / "out", partitioning="hive").to_table().to_pylist()
    assert sorted((row["land"], row["v"]) for row in table) == [("a b/ü%", 1), ("de", 2)]


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("de", "de"), ("a/b", "a%2Fb"), ("..", ".."), ("", NOTHING), (None, NOTHING),
        ('"quote\'', "%22quote%27"), ("new\nline", "new%0Aline"), ("100%", "100%25"),
        ("a=b", "a%3Db"), ("ü x", "ü x"), ("\0", "%00"), ("\\", "%5C"),
    ],
)  # fmt: skip
def test_values_are_escaped_as_hive_does(writer, tmp_path, value, name):
    schema = pa.schema([("k", pa.string()), ("v", pa.int64())])
    sink = writer(path="out", format="jsonl", partition_by=("k",))
    sink.write(pa.RecordBatch.from_pylist([{"k": value, "v": 1}], schema))
    assert set(tree(tmp_path / "out")) == {f"k={name}"}


@pytest.mark.parametrize(
    ("term", "zone", "name"),
    [
        ("year(at)", "UTC", "at_year=2026"),
        ("month(at)", "UTC", "at_month=2026-01"),
        ("day(at)", "UTC", "at_day=2026-01-02"),
        ("day(at)", "Europe/Berlin", "at_day=2026-01-03"),
        ("hour(at)", "Asia/Tokyo", "at_hour=2026-01-03-08"),
        ("day(local)", "Asia/Tokyo", "local_day=2026-01-02"),
        ("month(on)", "Asia/Tokyo", "on_month=2026-01"),
    ],
)
def test_folders_of_times(writer, tmp_path, term, zone, name):
    rows = [{"at": AT, "local": AT.replace(tzinfo=None), "on": AT.date(), "v": 1}]
    writer(path="out", format="jsonl", partition_by=(term,), partition_zone=zone).write(rows)
    assert set(tree(tmp_path / "out")) == {name}


def test_the_day_of_writing_needs_no_field(writer, tmp_path):
    before = dt.datetime.now(dt.UTC).date()
    writer(path="out", partition_by=("day()",)).write(["a"])
    after = dt.datetime.now(dt.UTC).date()
    assert set(tree(tmp_path / "out")) & {f"day={before}", f"day={after}"}


@pytest.mark.parametrize(
    ("term", "rows"),
    [
        ("x", [{"a": 1}]),
        ("a", [{"a": [1], "b": 1}]),
        ("a", [{"a": b"x", "b": 1}]),
        ("day(a)", [{"a": "2026-01-01", "b": 1}]),
        ("hour(a)", [{"a": AT.date(), "b": 1}]),
        ("a", [{"a": "x" * 300, "b": 1}]),
    ],
)
def test_what_names_no_folder_is_refused(writer, term, rows):
    with pytest.raises(SchemaError) as caught:
        writer(path="out", format="jsonl", partition_by=(term,)).write(rows)
    assert caught.value.code == "file.partition_column"


def test_rows_that_would_have_no_columns_left_are_refused(writer):
    with pytest.raises(SchemaError) as caught:
        writer(path="out", format="jsonl", partition_by=("a",)).write([{"a": 1}])
    assert caught.value.code == "file.no_columns"


def test_a_file_in_place_of_the_folder_ends_the_task(writer, tmp_path):
    (tmp_path / "out").write_text("mine")
    with pytest.raises(ConfigError, match="out is a file, expected a folder") as caught:
        writer(path="out", format="jsonl").write([{"a": 1}])
    assert caught.value.code == "file.bad_path"
    assert (tmp_path / "out").read_text() == "mine"


def test_a_link_in_place_of_a_folder_is_not_followed(writer, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out" / "a=1").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError) as caught:
        writer(path="out", format="jsonl", partition_by=("a",)).write([{"a": 1, "b": 1}])
    assert caught.value.code == "file.bad_path"
    assert not list((tmp_path / "elsewhere").iterdir())


def test_more_folders_than_may_be_open_are_written_all_the_same(writer, tmp_path, monkeypatch):
    monkeypatch.setattr("penstock_builtin.file_sink.staging._OPEN_MOST", 3)
    monkeypatch.setattr("penstock_builtin.file_sink.local._ROLLING_MOST", 3)
    sink = writer(path="out", format="jsonl", partition_by=("a",))
    rows = [{"a": n % 10, "b": n} for n in range(100)]
    for at in range(0, 100, 25):
        sink.write(rows[at : at + 25])
    found = tree(tmp_path / "out")
    assert len(found) == 10
    seen = [json.loads(x)["b"] for ps in found.values() for p in ps for x in p.open()]
    assert sorted(seen) == list(range(100))


def test_a_large_state_of_many_folders_is_kept_beside(writer, tmp_path):
    sink = writer(path="out", format="jsonl", partition_by=("a",), fsync=False)
    sink.begin()
    state = sink.prepare(sink.stage([{"a": f"{n:0200}", "b": n} for n in range(250)]))
    assert len(state) < 1000
    sink.sink.commit(sink.txn, 1, state)
    assert len(tree(tmp_path / "out")) == 250


def test_division_keeps_the_order_and_loses_nothing():
    rows = pa.RecordBatch.from_pylist([{"k": n * n % 7, "v": n} for n in range(1000)])
    parts = list(Partitions(parse_terms(["k"]), "UTC", rows.schema, keep=False).split(rows))
    assert sorted(v for _, some in parts for v in some["v"].to_pylist()) == list(range(1000))
    for folder, some in parts:
        values = some["v"].to_pylist()
        assert values == sorted(values)
        assert {v * v % 7 for v in values} == {int(folder.partition("=")[2])}


def test_escapes_can_be_taken_back():
    from urllib.parse import unquote

    for text in ("a/b", "%41", "a:b*c?", "{}[]^", "\x7f\x01"):
        assert unquote(escaped(text)) == text
        assert "/" not in escaped(text)


# ── size and compression ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["parquet", "avro"])
def test_files_that_have_an_end_get_it_at_the_size_asked_for(writer, tmp_path, kind, monkeypatch):
    monkeypatch.setattr("penstock_builtin.parquet._GROUP_BYTES", 1000)
    sink = writer(path="out", format=kind, rotate_bytes=20_000, compression="none")
    rows = [{"text": f"{n:0200}"} for n in range(1000)]
    sink.begin()
    staged = sink.stage(*(rows[at : at + 20] for at in range(0, 1000, 20)))
    sink.sink.commit(sink.txn, 1, sink.prepare(staged))
    sizes = [path.stat().st_size for path in tree(tmp_path / "out")["."]]
    assert len(sizes) > 5
    assert all(20_000 <= size < 40_000 for size in sizes[:-1])
    found = read_back(tmp_path / "out", format=kind)  # files take turns
    assert sorted(found, key=lambda row: row["text"]) == rows


@pytest.mark.parametrize("packing", ["gzip", "zstd"])
@pytest.mark.parametrize("kind", ["text", "csv", "jsonl"])
@pytest.mark.parametrize("where", ["file", "path"])
def test_lines_are_compressed_and_gone_on_with(writer, tmp_path, kind, packing, where):
    ending = {"gzip": "gz", "zstd": "zst"}[packing]
    config = {where: f"out.{ending}" if where == "file" else "out"}
    for epoch in (1, 2):
        sink = writer(format=kind, compression=packing, epoch=epoch, **config)
        sink.txn = 10 * epoch
        sink.write([{"line": f"{epoch}a"}], [{"line": f"{epoch}b"}])
        sink.write([{"line": f"{epoch}c"}])
    rows = read_back(tmp_path / config[where], format=kind)
    assert [row["line"] for row in rows] == [f"{epoch}{x}" for epoch in (1, 2) for x in "abc"]
    if where == "path":
        (paths,) = tree(tmp_path / "out").values()
        assert all(path.name.endswith(f".{ending}") for path in paths)


def test_other_columns_are_refused_by_a_compressed_file_of_csv(writer):
    config = {"file": "a.csv.gz", "format": "csv", "compression": "gzip"}
    writer(**config).write([{"a": 1}])
    with pytest.raises(SchemaError) as caught:
        writer(**config, epoch=2).write([{"b": 1}])
    assert caught.value.code == "file.csv_header_differs"


def test_other_programs_unpack_what_was_written(writer, tmp_path):
    writer(path="out", compression="gzip").write(["a", "b"])
    ((path,),) = tree(tmp_path / "out").values()
    assert gzip.decompress(path.read_bytes()) == b"a\nb\n"


@pytest.mark.parametrize("packing", ["none", "gzip", "snappy", "zstd"])
@pytest.mark.parametrize("kind", ["parquet", "avro"])
def test_files_with_an_end_are_compressed(writer, tmp_path, kind, packing):
    rows = [{"n": n} for n in range(500)]
    writer(path="out", format=kind, compression=packing).write(rows)
    assert read_back(tmp_path / "out", format=kind) == rows


# ── Avro ─────────────────────────────────────────────────────────────────────────────────────────

COLUMNS = [
    (pa.bool_(), True), (pa.int8(), -5), (pa.uint32(), 2**32 - 1), (pa.int64(), -(2**63)),
    (pa.uint64(), 2**64 - 1), (pa.float32(), 0.5), (pa.float64(), 1e300), (pa.string(), "ü\0"),
    (pa.binary(), b"\x00\xff"), (pa.binary(3), b"abc"), (pa.date32(), AT.date()),
    (pa.timestamp("us", "UTC"), AT), (pa.timestamp("s"), AT.replace(tzinfo=None)),
    (pa.timestamp("ms"), AT.replace(tzinfo=None)), (pa.time32("s"), dt.time(1, 2, 3)),
    (pa.time64("us"), dt.time(1, 2, 3, 4)), (pa.decimal128(9, 2), decimal.Decimal("-1.25")),
    (pa.list_(pa.timestamp("us")), [AT.replace(tzinfo=None), None]),
    (pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))]), {"a": 1, "b": ["x"]}),
    (pa.map_(pa.string(), pa.int64()), [("a", 1)]), (pa.null(), None),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "value"), COLUMNS, ids=lambda v: str(v)[:30])
def test_every_type_goes_to_avro_and_back(writer, tmp_path, kind, value):
    schema = pa.schema([("v", kind), ("n", pa.int64())])
    rows = [{"v": value, "n": 1}, {"v": None, "n": None}]
    writer(path="out", format="avro").write(pa.RecordBatch.from_pylist(rows, schema))
    found = read_back(tmp_path / "out", format="avro")
    wanted = decimal.Decimal(value) if kind == pa.uint64() else value
    assert found == [{"v": wanted, "n": 1}, {"v": None, "n": None}]


def test_names_that_avro_does_not_take_come_back(writer, tmp_path):
    rows = [{"a b": 1, "a_b": 2, "1": 3, "ü": 4, "ok": 5}]
    writer(path="out", format="avro", compression="gzip").write(rows)
    assert read_back(tmp_path / "out", format="avro") == rows
    ((path,),) = tree(tmp_path / "out").values()
    with path.open("rb") as file:
        assert len(next(iter(fastavro.reader(file)))) == 5


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.map_(pa.int64(), pa.int64()), [(1, 1)]),
        (pa.struct([("a b", pa.int64())]), {"a b": 1}),
        (pa.time64("ns"), 1),
    ],
)
def test_what_avro_cannot_hold_is_refused(writer, kind, value):
    rows = pa.record_batch([pa.array([value], kind)], names=["v"])
    with pytest.raises(SchemaError) as caught:
        writer(path="out", format="avro").write(rows)
    assert caught.value.code == "file.avro_schema"


def test_parquet_is_what_it_was(writer, tmp_path):
    writer(path="out", format="parquet").write([{"a": 1, "__op": 1}])
    ((path,),) = tree(tmp_path / "out").values()
    table = pq.read_table(path)
    assert table.column_names == ["a"]
    assert pq.ParquetFile(path).metadata.row_group(0).column(0).compression == "SNAPPY"


@pytest.mark.parametrize(
    ("keys", "path"),
    [
        ({"file": "a", "partition_by": ("x",)}, "partition.by"),
        ({"file": "a", "format": "avro"}, "format"),
        ({"file": "s3://b/a"}, "file"),
        ({"path": "a", "compression": "snappy"}, "compression"),
        ({"path": "a", "format": "avro", "compression": "lz4"}, "compression"),
        ({"path": "a", "partition_by": ("x", "x")}, "partition.by"),
        ({"path": "a", "partition_zone": "Nowhere/Else"}, "partition.zone"),
        ({"path": "s3://b/a", "allowed_roots": ("/x",)}, "allowed.roots"),
    ],
)
def test_what_cannot_mean_anything_is_refused(keys, path):
    with pytest.raises(ConfigError) as caught:
        FileSinkConfig(**keys)
    assert caught.value.config_path == path
