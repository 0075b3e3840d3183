"""Parquet and Avro: a time is exact, or its row is rejected, or it is cut where that is wanted."""

import io
import json
import random

import duckdb
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock_builtin.avro.container import make_block, make_header
from penstock_connector import DataError

NANOS = {
    "timestamp": pa.timestamp("ns"),
    "instant": pa.timestamp("ns", "UTC"),
    "time": pa.time64("ns"),
    "duration": pa.duration("ns"),
}
AROUND = {
    "top": (lambda kind: kind, lambda value: value),
    "list": (pa.list_, lambda value: [0, value]),
    "large list": (pa.large_list, lambda value: [0, value]),
    "fixed list": (lambda kind: pa.list_(kind, 2), lambda value: [0, value]),
    "struct": (lambda kind: pa.struct([("s", kind)]), lambda value: {"s": value}),
    "map": (lambda kind: pa.map_(pa.string(), kind), lambda value: [("k", value)]),
    "list of structs": (
        lambda kind: pa.list_(pa.struct([("s", kind)])), lambda value: [{"s": value}, None]
    ),
}  # fmt: skip


def write(path, kind, values, around="top"):
    """Write whole numbers as times of a type, with a null among them."""
    outer, wrap = AROUND[around]
    column = pa.array([None if v is None else wrap(v) for v in values], outer(kind))
    pq.write_table(pa.table({"id": range(len(values)), "t": column}), path)


def numbers(value):
    """Return the numbers of a time, wherever it is."""
    if isinstance(value, pa.StructScalar):
        return [n for child in value.values() for n in numbers(child)]
    if isinstance(value, pa.MapScalar):
        entries = value.values if value.is_valid else []
        return [n for entry in entries for n in numbers(entry["value"])]
    if isinstance(value, pa.ListScalar | pa.LargeListScalar | pa.FixedSizeListScalar):
        return [n for child in value for n in numbers(child)] if value.is_valid else []
    return [value.value] if value.is_valid else []


def numbers_of(reader):
    return [numbers(value)[-1:] for batch in reader.batches for value in batch.rows.column("t")]


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("kind", NANOS.values(), ids=NANOS)
def test_a_time_that_is_finer_than_a_microsecond_rejects_its_row(read, tmp_path, kind, around):
    write(tmp_path / "a", kind, [1000, None, 1001, 2000, 999], around)
    with pytest.raises(DataError) as caught:
        read("a", tail=False, format="parquet").drain()
    assert caught.value.code == "file.inexact_time"
    assert "a, row 3: column 't'" in caught.value.message
    assert "nanoseconds" in caught.value.fix
    tolerant = read("a", tail=False, format="parquet", invalid_rows="dead-letter")
    tolerant.drain()
    assert numbers_of(tolerant) == [[1], [], [2]]
    assert [json.loads(raw)["id"] for raw, _ in tolerant.bad] == [2, 4]
    assert all(b"1001" in raw or b"000001001" in raw for raw, _ in tolerant.bad[:1])


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("kind", NANOS.values(), ids=NANOS)
def test_times_are_cut_where_that_is_asked_for(read, tmp_path, kind, around):
    write(tmp_path / "a", kind, [1000, None, 1001, 1999], around)
    reader = read("a", tail=False, format="parquet", nanoseconds="truncate")
    reader.drain()
    assert numbers_of(reader) == [[1], [], [1], [1]]
    assert not reader.bad


def test_a_cut_time_is_the_microsecond_in_which_it_lies_also_before_1970(read, tmp_path):
    write(tmp_path / "a", pa.timestamp("ns"), [-1, -1000, -1001, 2**63 - 1, -(2**63)])
    reader = read("a", tail=False, format="parquet", nanoseconds="truncate")
    reader.drain()
    assert numbers_of(reader) == [[-1], [-1], [-2], [2**63 // 1000], [-(2**63) // 1000]]


@pytest.mark.parametrize(
    "kind", [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")]
)
def test_a_time_that_is_none_of_a_day_rejects_its_row(read, tmp_path, kind):
    day = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
    write(tmp_path / "a", kind, [0, day[kind.unit], day[kind.unit] - 1000, None])
    for nanoseconds in ("fail", "truncate"):
        reader = read("a", tail=False, format="parquet", invalid_rows="dead-letter",
                      nanoseconds=nanoseconds)  # fmt: skip
        assert [row["id"] for row in reader.drain()] == [0, 2, 3]
        assert len(reader.bad) == 1


def avro_schema(kind):
    fields = [
        {"name": "t", "type": ["null", kind]},
        {"name": "l", "type": {"type": "array", "items": kind}},
    ]
    return {"type": "record", "name": "r", "fields": fields}


@pytest.mark.parametrize("logical", ["timestamp-nanos", "local-timestamp-nanos"])
def test_nanoseconds_of_avro_are_exact_or_rejected_or_cut(read, tmp_path, logical):
    stored = {"type": "long", "logicalType": logical}
    rows = [{"t": 1000, "l": []}, {"t": None, "l": [2000, 1]}, {"t": -1, "l": []}]
    out = io.BytesIO()
    for row in rows:
        fastavro.schemaless_writer(out, avro_schema("long"), row)
    sync = bytes(16)
    block = make_block(out.getvalue(), len(rows), "null", sync)
    (tmp_path / "a").write_bytes(make_header(avro_schema(stored), "null", sync) + block)
    tolerant = read("a", tail=False, format="avro", invalid_rows="dead-letter")
    assert len(tolerant.drain()) == 1
    assert [error.message.partition(": ")[0][-5:] for _, error in tolerant.bad] == [
        "row 2",
        "row 3",
    ]
    cut = read("a", tail=False, format="avro", nanoseconds="truncate")
    cut.drain()
    assert [value.value for value in cut.batches[0].rows.column("t")] == [1, None, -1]


def test_exact_times_have_the_values_that_duckdb_reads(read, tmp_path):
    for seed in range(60):
        chance = random.Random(seed)
        values = [
            chance.choice([None, chance.randrange(-(2**50), 2**50) * 1000]) for _ in range(50)
        ]
        path = tmp_path / f"{seed}"
        write(path, pa.timestamp("ns"), values)
        expected = duckdb.sql(f"select epoch_us(t) from read_parquet('{path}') order by id")
        reader = read(
            f"{seed}", tail=False, format="parquet", block_bytes=chance.choice([1, 1 << 20])
        )
        reader.drain()
        assert [n[0] if n else None for n in numbers_of(reader)] == [
            n for (n,) in expected.fetchall()
        ]


def test_times_of_int96_are_exact_also_where_nanoseconds_end(read, tmp_path):
    values = [253402214400000000, -62135596800000000, 5, None]  # 9999-12-31, 0001-01-01
    table = pa.table({"t": pa.array(values, pa.timestamp("us"))})
    pq.write_table(table, tmp_path / "a", use_deprecated_int96_timestamps=True)
    reader = read("a", tail=False, format="parquet")
    reader.drain()
    assert [n[0] if n else None for n in numbers_of(reader)] == values


def test_nanoseconds_of_int96_reject_their_row(read, tmp_path):
    table = pa.table({"t": pa.array([1001, 2000], pa.timestamp("ns"))})
    pq.write_table(table, tmp_path / "a", use_deprecated_int96_timestamps=True)
    reader = read("a", tail=False, format="parquet", invalid_rows="dead-letter")
    reader.drain()
    assert (numbers_of(reader), len(reader.bad)) == ([[2]], 1)


def test_far_times_of_int96_inside_lists_are_an_error(read, tmp_path):
    column = pa.array([[253402214400000000]], pa.list_(pa.timestamp("us")))
    pq.write_table(pa.table({"t": column}), tmp_path / "a", use_deprecated_int96_timestamps=True)
    with pytest.raises(DataError, match="before 1678 or after 2261") as caught:
        read("a", tail=False, format="parquet").drain()
    assert caught.value.code == "file.invalid_parquet"


AVRO_KINDS = {
    "long": [0, -(2**63), 2**63 - 1],
    "double": [0.1, -1e300],
    "string": ["", "é\u2028"],
    "bytes": [b"", b"\xff"],
    "boolean": [True, False],
    "timestamp-micros": [-1, 0, 10**15 + 1],
    "local-timestamp-micros": [-1, 10**15 + 1],
}


def avro_kind(chance, name, depth=0):
    """Return a random type and what makes random values of it, as they are stored."""
    made = chance.choice([*AVRO_KINDS, "array", "record"] if depth < 3 else list(AVRO_KINDS))
    if made == "array":
        item, value = avro_kind(chance, f"{name}i", depth + 1)
        return {"type": "array", "items": item}, lambda: [
            value() for _ in range(chance.randint(0, 3))
        ]
    if made == "record":
        item, value = avro_kind(chance, f"{name}r", depth + 1)
        fields = [{"name": "f", "type": ["null", item]}]
        return {"type": "record", "name": name, "fields": fields}, lambda: {
            "f": value() if chance.random() < 0.8 else None
        }
    values = AVRO_KINDS[made]
    kind = {"type": "long", "logicalType": made} if "micros" in made else made
    return kind, lambda: chance.choice(values)


def test_random_avro_files_are_read_as_fastavro_reads_them(read, tmp_path):
    for seed in range(150):
        chance = random.Random(seed)
        made = [avro_kind(chance, f"n{n}") for n in range(3)]
        fields = [{"name": f"c{n}", "type": kind} for n, (kind, _) in enumerate(made)]
        schema = {"type": "record", "name": "row", "fields": fields}
        rows = [{f"c{n}": value() for n, (_, value) in enumerate(made)} for _ in range(20)]
        path = tmp_path / f"{seed}"
        with path.open("wb") as file:
            fastavro.writer(file, schema, rows, sync_interval=chance.choice([1, 100, 16000]))
        with path.open("rb") as file:
            expected = list(fastavro.reader(file))
        block = chance.choice([1, 200, 1 << 20])
        assert read(f"{seed}", tail=False, format="avro", block_bytes=block).drain() == expected
