"""Parquet and Avro: offsets are rows, types are exact, what is broken is told."""

import datetime as dt
import decimal
import io
import uuid

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock_connector import DataError, SchemaError, partition_id

SCHEMA = {
    "type": "record",
    "name": "row",
    "fields": [{"name": "id", "type": "long"}, {"name": "text", "type": ["null", "string"]}],
}


def records(n, begin=0):
    return [{"id": i, "text": None if i % 7 == 0 else f"é{i}"} for i in range(begin, n)]


def write_parquet(path, rows, **options):
    pq.write_table(pa.Table.from_pylist(rows), path, **options)


def write_avro(path, rows, schema=SCHEMA, **options):
    with path.open("wb") as file:
        fastavro.writer(file, schema, rows, **options)


WRITERS = {
    "parquet": lambda path, rows: write_parquet(path, rows, row_group_size=70),
    "avro": lambda path, rows: write_avro(path, rows, sync_interval=200),
}


@pytest.mark.parametrize("kind", WRITERS)
def test_rows_are_read_and_gone_on_with_from_every_offset(read, tmp_path, kind):
    WRITERS[kind](tmp_path / "a", records(500))
    config = {"tail": False, "format": kind, "block_bytes": 300}
    whole = read("a", **config)
    checkpoints = []
    while whole.step() is not None:
        checkpoints.append((len(whole.rows), dict(whole.offsets)))
    assert whole.rows == records(500)
    assert len(checkpoints) > 4
    assert whole.batches[-1].finished_partition
    for seen, offsets in checkpoints:
        assert read("a", **config, offsets=offsets).drain() == records(500)[seen:]


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("row", [1, 69, 70, 71, 499, 500])
def test_an_offset_may_be_a_row_that_a_person_set(read, tmp_path, kind, row):
    WRITERS[kind](tmp_path / "a", records(500))
    offsets = {partition_id({"file": str(tmp_path / "a")}): {"row": row}}
    assert read("a", tail=False, format=kind, offsets=offsets).drain() == records(500)[row:]


@pytest.mark.parametrize("kind", WRITERS)
def test_another_file_under_the_name_is_noticed(read, tmp_path, kind):
    WRITERS[kind](tmp_path / "a", records(100))
    reader = read("a", format=kind)
    reader.drain()
    (tmp_path / "a").unlink()
    WRITERS[kind](tmp_path / "a", records(150, begin=100))
    reader.until(lambda: len(reader.rows) == 150)
    assert reader.rows == records(150)


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("keep", [0, 3, 50, -3])
def test_a_file_that_is_cut_off_is_told_or_waited_for(read, tmp_path, kind, keep):
    WRITERS[kind](tmp_path / "whole", records(100))
    data = (tmp_path / "whole").read_bytes()
    (tmp_path / "a").write_bytes(data[:keep])
    with pytest.raises(DataError) as caught:
        read("a", tail=False, format=kind).drain()
    assert caught.value.code == f"file.invalid_{kind}"
    reader = read("a", format=kind)
    reader.drain()
    (tmp_path / "a").write_bytes(data)
    reader.until(lambda: len(reader.rows) == 100)
    assert reader.rows == records(100)


def test_blocks_that_are_appended_to_an_avro_file_are_read_at_once(read, tmp_path):
    write_avro(tmp_path / "a", records(10))
    reader = read("a", format="avro")
    reader.drain()
    with (tmp_path / "a").open("a+b") as file:
        fastavro.writer(file, SCHEMA, records(20, begin=10))
    reader.until(lambda: len(reader.rows) == 20)
    assert reader.rows == records(20)


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz", "snappy", "zstandard"])
def test_every_codec_of_avro_is_known(read, tmp_path, codec):
    from penstock_builtin.avro.container import make_block, make_header

    if codec in {"null", "deflate", "bzip2", "xz"}:
        write_avro(tmp_path / "a", records(30), codec=codec)
    else:
        out = io.BytesIO()
        for row in records(30):
            fastavro.schemaless_writer(out, SCHEMA, row)
        sync = bytes(range(16))
        block = make_block(out.getvalue(), 30, codec, sync)
        (tmp_path / "a").write_bytes(make_header(SCHEMA, codec, sync) + block)
    assert read("a", tail=False, format="avro").drain() == records(30)


def logical(kind, logical_name, **more):
    return {"type": kind, "logicalType": logical_name, **more}


UTC = dt.UTC
AT = dt.datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
TYPES = [
    (logical("int", "date"), AT.date(), pa.date32()),
    (logical("int", "time-millis"), AT.time(), pa.time32("ms")),
    (logical("long", "time-micros"), AT.time(), pa.time64("us")),
    (logical("long", "timestamp-millis"), AT, pa.timestamp("ms", "UTC")),
    (logical("long", "timestamp-micros"), AT, pa.timestamp("us", "UTC")),
    (logical("long", "local-timestamp-millis"), AT.replace(tzinfo=None), pa.timestamp("ms")),
    (logical("long", "local-timestamp-micros"), AT.replace(tzinfo=None), pa.timestamp("us")),
    (logical("bytes", "decimal", precision=9, scale=2), decimal.Decimal("-1.25"),
     pa.decimal128(9, 2)),
    (logical("fixed", "decimal", precision=50, scale=0, size=24, name="big"),
     decimal.Decimal(10) ** 45, pa.decimal256(50, 0)),
    (logical("string", "uuid"), str(uuid.UUID(int=5)), pa.string()),
    (logical("bytes", "decimal", precision=0), b"x", pa.binary()),
    (logical("fixed", "duration", size=12, name="span"), b"x" * 12, pa.binary(12)),
    ({"type": "enum", "name": "kind", "symbols": ["A", "B"]}, "B", pa.string()),
    ({"type": "map", "values": "int"}, [("a", 1)], pa.map_(pa.string(), pa.int32())),
    ({"type": "array", "items": ["null", logical("int", "date")]}, [AT.date(), None],
     pa.list_(pa.date32())),
    (["int", "double", "null"], 1.5, pa.float64()),
    (["null", "string", "long", "boolean"], 5,
     pa.struct([("string", pa.string()), ("long", pa.int64()), ("boolean", pa.bool_())])),
    ("float", 0.5, pa.float32()),
    ("bytes", b"\x00\xff", pa.binary()),
    ("null", None, pa.null()),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "value", "arrow"), TYPES, ids=lambda v: str(v)[:40])
def test_every_type_of_avro_has_one_of_arrow(read, tmp_path, kind, value, arrow):
    schema = {"type": "record", "name": "row", "fields": [{"name": "v", "type": kind}]}
    given = dict(value) if pa.types.is_map(arrow) else value
    if pa.types.is_binary(arrow) and isinstance(kind, dict):
        schema["fields"][0]["type"] = "bytes"  # what a reader makes of nonsense, not a writer
    write_avro(tmp_path / "a", [{"v": given}], schema)
    if pa.types.is_binary(arrow) and isinstance(kind, dict):
        data = (tmp_path / "a").read_bytes()
        assert b'"bytes"' in data
    reader = read("a", tail=False, format="avro")
    rows = reader.drain()
    assert reader.batches[0].rows.schema.field("v").type == arrow
    wanted = {"string": None, "long": 5, "boolean": None} if pa.types.is_struct(arrow) else value
    assert rows == [{"v": wanted}]


def test_records_in_records_and_in_unions_are_structs(read, tmp_path):
    point = {"type": "record", "name": "point", "fields": [{"name": "x", "type": "int"}]}
    circle = {"type": "record", "name": "circle", "fields": [{"name": "r", "type": "int"}]}
    schema = {
        "type": "record", "name": "row", "namespace": "a.b",
        "fields": [
            {"name": "one", "type": point},
            {"name": "maybe", "type": ["null", "point"]},
            {"name": "either", "type": ["point", circle]},
        ],
    }  # fmt: skip
    rows = [{"one": {"x": 1}, "maybe": {"x": 2}, "either": {"r": 3}}]
    write_avro(tmp_path / "a", rows, schema)
    assert read("a", tail=False, format="avro").drain() == [
        {"one": {"x": 1}, "maybe": {"x": 2}, "either": {"point": None, "circle": {"r": 3}}}
    ]


def test_a_file_of_single_values_has_a_column_for_them(read, tmp_path):
    write_avro(tmp_path / "a", [1, 2], "long")
    assert read("a", tail=False, format="avro").drain() == [{"value": 1}, {"value": 2}]


def test_a_schema_that_holds_itself_is_refused(read, tmp_path):
    fields = [{"name": "next", "type": ["null", "row"]}]
    schema = {"type": "record", "name": "row", "fields": fields}
    write_avro(tmp_path / "a", [{"next": None}], schema)
    with pytest.raises(SchemaError, match="holds itself") as caught:
        read("a", tail=False, format="avro").drain()
    assert caught.value.code == "file.avro_schema"
    assert str(tmp_path / "a") in caught.value.message


@pytest.mark.parametrize("kind", WRITERS)
def test_noise_is_no_file(read, tmp_path, kind):
    (tmp_path / "a").write_bytes(b"noise and nothing else" * 9)
    with pytest.raises(DataError) as caught:
        read("a", tail=False, format=kind).drain()
    assert caught.value.code == f"file.invalid_{kind}"
    assert str(tmp_path / "a") in str(caught.value)


def test_a_changed_byte_of_an_avro_file_is_noticed(read, tmp_path):
    """Of the framing, at least: blocks have no checksum."""
    write_avro(tmp_path / "a", records(100), sync_interval=100)
    data = (tmp_path / "a").read_bytes()
    end = data[-16:]
    second = data.index(end, data.index(end) + 16)
    (tmp_path / "a").write_bytes(data[:second] + b"\x00" + data[second + 1 :])
    with pytest.raises(DataError):
        read("a", tail=False, format="avro").drain()


@pytest.mark.parametrize("size", [(1 << 40, 10), (10, 1 << 40), (-5, 10)])
def test_a_block_of_an_impossible_size_is_refused_before_it_is_read(read, tmp_path, size):
    from penstock_builtin.avro.container import encoded, make_header

    sync = bytes(16)
    header = make_header({"type": "record", "name": "r", "fields": []}, "null", sync)
    (tmp_path / "a").write_bytes(header + encoded(size[0]) + encoded(size[1]) + b"x" * 100)
    with pytest.raises(DataError, match="impossible size"):
        read("a", tail=False, format="avro").drain()


@pytest.mark.parametrize("codec", ["deflate", "snappy", "zstandard"])
def test_a_block_that_unpacks_to_too_much_is_refused(codec, monkeypatch):
    from penstock_builtin.avro import container

    packed = container._PACK[codec](bytes(1 << 20))
    monkeypatch.setattr(container, "UNPACKED_MOST", 1 << 16)
    with pytest.raises(ValueError, match="more than"):
        container.unpack(packed, codec)


def test_parquet_keeps_the_types_of_its_columns(read, tmp_path):
    table = pa.table({
        "d": pa.array([decimal.Decimal("1.50")], pa.decimal128(9, 2)),
        "at": pa.array([AT], pa.timestamp("us", "UTC")),
        "on": pa.array([AT.date()]),
        "kind": pa.array(["x"]).dictionary_encode(),
        "many": pa.array([[1, 2]]),
        "s": pa.array([{"a": 1}]),
    })  # fmt: skip
    pq.write_table(table, tmp_path / "a")
    reader = read("a", tail=False, format="parquet")
    reader.drain()
    kept = reader.batches[0].rows.schema
    assert kept.field("kind").type == pa.string()
    assert [f.type for f in kept if f.name != "kind"] == [
        f.type for f in table.schema if f.name != "kind"
    ]


def test_row_groups_that_were_read_are_not_read_again(read, tmp_path):
    write_parquet(tmp_path / "a", records(1000), row_group_size=100)
    offsets = {partition_id({"file": str(tmp_path / "a")}): {"row": 900}}
    data = bytearray((tmp_path / "a").read_bytes())
    group = pq.ParquetFile(tmp_path / "a").metadata.row_group(3).column(0)
    at = group.dictionary_page_offset or group.data_page_offset
    data[at : at + 20] = b"\xff" * 20
    (tmp_path / "a").write_bytes(data)
    assert len(read("a", tail=False, format="parquet", offsets=offsets).drain()) == 100
    with pytest.raises(DataError, match="after row") as caught:
        read("a", tail=False, format="parquet").drain()
    assert caught.value.code == "file.invalid_parquet"
