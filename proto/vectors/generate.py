"""Writes the golden vectors beside it: what batches and offsets look like on the wire.

    python proto/vectors/generate.py [FOLDER]

Of every batch NAME there are three files: `NAME.schema`, an Arrow IPC schema message; `NAME.arrow`,
an Arrow IPC record batch message; `NAME.jsonl`, the same rows as JSON lines. `offsets.json` has
partitions: the canonical JSON of a key, and the bytes of a `record.v1.Partition`. An implementation
of the protocol that reads them reads everything.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as kind

from penstock_connector import Partition
from penstock_connector._values import partition_to_proto

HERE: Final = Path(__file__).parent
DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}
EAST: Final = timezone(timedelta(hours=5, minutes=30))
MOMENT: Final = datetime(2024, 2, 29, 23, 59, 59, 123456, UTC)
LONG_AGO: Final = datetime(1883, 11, 18, 12, 3, 58, tzinfo=UTC)

PAIR: Final = pa.struct([pa.field("id", pa.int64()), pa.field("name", pa.string())])


def batches() -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield every batch with its name."""
    yield "integers", _integers()
    yield (
        "floats",
        _batch(
            f32=(pa.float32(), [0.5, -0.25, None, 1.5]),
            f64=(pa.float64(), [0.1, 5e-324, float("nan"), -1.7976931348623157e308]),
            infinite=(pa.float64(), [float("inf"), float("-inf"), None, 2.5]),
        ),
    )
    yield (
        "decimals",
        _batch(
            money=(
                pa.decimal128(20, 2),
                [Decimal("123456789012345678.90"), Decimal("-0.01"), None],
            ),
            whole=(pa.decimal128(38, 0), [Decimal("9" * 38), Decimal(0), Decimal(-1)]),
            wide=(
                pa.decimal256(60, 20),
                [Decimal("1." + "3" * 20), None, Decimal("-5." + "0" * 20)],
            ),
        ),
    )
    yield (
        "texts",
        _batch(
            text=(
                pa.string(),
                ["", 'quoted "\\" text', "line\nbreak\ttab\x01", "Grüße 👋 \u2028", None],
            ),
            truth=(pa.bool_(), [True, False, None, True, False]),
            raw=(pa.binary(), [b"", b"\x00\xff", "Ä".encode(), None, bytes(range(9))]),
        ),
    )
    yield "moments", _moments()
    yield "nested", _nested()
    yield (
        "nulls",
        _batch(
            number=(pa.int64(), [None, None]),
            text=(pa.string(), [None, None]),
            list=(pa.list_(pa.int64()), [None, None]),
            struct=(PAIR, [None, None]),
        ),
    )
    yield "empty", _batch(id=(pa.int64(), []), text=(pa.string(), []), when=(pa.date32(), []))
    yield (
        "reserved",
        _batch(
            id=(pa.int64(), [1, 2]),
            __op=(pa.int8(), [1, 3]),
            __ts_us=(pa.int64(), [1709251199123456, None]),
            __key=(pa.struct([("id", pa.int64())]), [{"id": 1}, {"id": 2}]),
            __headers=(
                pa.map_(pa.string(), pa.binary()),
                [[("trace", b"\x01"), ("trace", b"\x02")], []],
            ),
            __offset=(pa.binary(), [b"{}", None]),
        ),
    )


def _batch(**columns: tuple[pa.DataType, list[Any]]) -> pa.RecordBatch:
    schema = pa.schema([(name, type_) for name, (type_, _) in columns.items()])
    arrays = [pa.array(values, type_) for type_, values in columns.values()]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _integers() -> pa.RecordBatch:
    columns = {}
    for bits in (8, 16, 32, 64):
        most = 2 ** (bits - 1) - 1
        signed, unsigned = getattr(pa, f"int{bits}")(), getattr(pa, f"uint{bits}")()
        columns[f"i{bits}"] = (signed, [-most - 1, 0, most, None])
        columns[f"u{bits}"] = (unsigned, [0, 1, 2 * most + 1, None])
    columns["beyond"] = (pa.int64(), [2**53 + 1, -(2**53) - 1, 2**62 + 3, 1])
    return _batch(**columns)


def _moments() -> pa.RecordBatch:
    naive = MOMENT.replace(tzinfo=None)
    return _batch(
        day=(pa.date32(), [date(2024, 2, 29), date(1600, 1, 1), None]),
        time=(pa.time64("us"), [1, 86_399_999_999, None]),
        utc=(pa.timestamp("us", "UTC"), [MOMENT, LONG_AGO, None]),
        zoned=(pa.timestamp("us", "Asia/Kolkata"), [MOMENT.astimezone(EAST), LONG_AGO, None]),
        local=(pa.timestamp("us"), [naive, datetime(1, 1, 1), None]),  # noqa: DTZ001 - it is local
        millis=(pa.timestamp("ms", "UTC"), [1709251199123, -1, None]),
        nanos=(pa.timestamp("ns", "UTC"), [1709251199123456789, -1, None]),
        took=(pa.duration("us"), [1, -(2**60), None]),
    )


def _nested() -> pa.RecordBatch:
    return _batch(
        list=(pa.list_(pa.int64()), [[1, None, 2**53 + 1], [], None]),
        lists=(pa.list_(pa.list_(pa.string())), [[["a"], [], None], None, [[None]]]),
        struct=(PAIR, [{"id": 2**63 - 1, "name": "x"}, {"id": None, "name": None}, None]),
        structs=(pa.list_(PAIR), [[{"id": 1, "name": "a"}, None], [], None]),
        map=(pa.map_(pa.string(), pa.int64()), [[("b", 1), ("a", None)], [], None]),
        prices=(
            pa.map_(pa.string(), pa.struct([("price", pa.decimal128(10, 2))])),
            [[("eur", {"price": Decimal("1.50")})], None, [("usd", None)]],
        ),
        raws=(pa.list_(pa.binary()), [[b"\x00", None], [], [b""]]),
    )


PARTITIONS: Final = (
    Partition({"source": "numbers"}, {"next": 0}),
    Partition({"path": "/data/a.jsonl"}, {"byte": 2**53 + 1, "line": -1}),
    Partition({"b": 1, "a": 'Grüße "\\\n\x01\u2028', "c": None}, {"done": True, "rate": 0.1}),
    Partition({"id": Decimal("1.20")}, {"price": Decimal("-0.01"), "day": date(2024, 2, 29)}),
    Partition({"raw": b"\x00\xff"}, {"at": MOMENT, "before": LONG_AGO, "raw": b""}),
    Partition(
        {"deep": {"list": [1, "x", None, [2.5]], "z": {}}}, {"tables": {"t": {"lsn": 2**62}}}
    ),
    Partition({"big": 1e16, "small": 1e-05, "one": 1.0}, {"$opaque": b"\x01\x02"}),
    Partition({"new": True}),
)


def json_lines(batch: pa.RecordBatch) -> str:
    """Return rows as JSON lines, in the one form that the vectors have."""
    columns = [(name, batch.column(name)) for name in batch.schema.names]
    rows = (
        {name: plain(column[at], column.type) for name, column in columns}
        for at in range(batch.num_rows)
    )
    return "".join(
        json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows
    )


def plain(value: Any, type_: pa.DataType) -> Any:
    """Return a scalar of Arrow as what stands for it in JSON."""
    if not value.is_valid:
        return None
    for is_one, form in _FORMS:
        if is_one(type_):
            return form(value, type_)
    return value.as_py()


def _float(value: Any, _: pa.DataType) -> Any:
    number = value.as_py()
    if number != number:  # noqa: PLR0124 - NaN
        return "NaN"
    return number if abs(number) != float("inf") else f"{'-' if number < 0 else ''}Infinity"


def _clock(seconds: int, part: int, digits: int) -> str:
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{part:0{digits}}" if digits else text


def _timestamp(value: Any, type_: pa.DataType) -> str:
    digits = DIGITS[type_.unit]
    seconds, part = divmod(value.value, 10**digits)
    days, seconds = divmod(seconds, 86_400)
    day = date.fromordinal(date(1970, 1, 1).toordinal() + days)
    return f"{day.isoformat()}T{_clock(seconds, part, digits)}{'Z' if type_.tz else ''}"


def _time(value: Any, type_: pa.DataType) -> str:
    digits = DIGITS[type_.unit]
    return _clock(*divmod(value.value, 10**digits), digits)


def _struct(value: Any, type_: pa.DataType) -> dict[str, Any]:
    fields = [type_.field(at) for at in range(type_.num_fields)]
    return {field.name: plain(value[field.name], field.type) for field in fields}


def _map(value: Any, type_: pa.DataType) -> list[dict[str, Any]]:
    pairs = value.values  # an array of structs
    return [
        {
            "key": plain(pairs.field(0)[at], type_.key_type),
            "value": plain(pairs.field(1)[at], type_.item_type),
        }
        for at in range(len(pairs))
    ]


_FORMS: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any, Any], Any]], ...]] = (
    (kind.is_floating, _float),
    (kind.is_decimal, lambda value, _: format(value.as_py(), "f")),
    (kind.is_binary, lambda value, _: base64.b64encode(value.as_py()).decode()),
    (kind.is_timestamp, _timestamp),
    (kind.is_time, _time),
    (kind.is_date, lambda value, _: value.as_py().isoformat()),
    (kind.is_duration, lambda value, _: value.value),
    (kind.is_map, _map),
    (kind.is_list, lambda value, type_: [plain(item, type_.value_type) for item in value]),
    (kind.is_struct, _struct),
)


def offsets() -> str:
    """Return the file of partitions."""
    entries = [
        {
            "id": partition.id,
            "partition": base64.b64encode(
                partition_to_proto(partition).SerializeToString(deterministic=True)
            ).decode(),
        }
        for partition in PARTITIONS
    ]
    return json.dumps(entries, indent=1, ensure_ascii=False) + "\n"


def main(folder: Path) -> None:
    """Write all files."""
    for name, batch in batches():
        (folder / f"{name}.schema").write_bytes(batch.schema.serialize().to_pybytes())
        (folder / f"{name}.arrow").write_bytes(batch.serialize().to_pybytes())
        (folder / f"{name}.jsonl").write_text(json_lines(batch), encoding="utf-8")
    (folder / "offsets.json").write_text(offsets(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else HERE)
