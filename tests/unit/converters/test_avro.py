"""Avro's bytes to columns and back: fastavro, which reads and writes them one by one, is asked what
is right.
"""

import io
import itertools
import json
import struct
import time
from datetime import UTC, date, datetime, timedelta
from datetime import time as time_of_day
from decimal import Decimal

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock_converters.avro.connect import AvroOptions, to_connect
from penstock_converters.avro.decoder import AvroDecoder
from penstock_converters.avro.encoder import AvroEncoder
from penstock_converters.avro.schema import parse_avro_schema
from penstock_converters.byte_reader import REASONS, ByteReader
from penstock_converters.connect_schema import InvalidSchemaError, to_arrow_field

OPTIONS = AvroOptions(enhanced=True)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

SIMPLE = {
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=300),
    "string": st.text(max_size=80),
}
LOGICAL = [
    ({"type": "int", "logicalType": "date"}, st.dates()),
    (
        {"type": "int", "logicalType": "time-millis"},
        st.integers(0, 86_399_999).map(
            lambda ms: (datetime.min + timedelta(milliseconds=ms)).time()  # noqa: DTZ901
        ),
    ),
    (
        {"type": "long", "logicalType": "timestamp-millis"},
        st.integers(-(10**13), 10**13).map(lambda ms: EPOCH + timedelta(milliseconds=ms)),
    ),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 3},
        st.integers(-(10**12) + 1, 10**12 - 1).map(lambda n: Decimal(n).scaleb(-3)),
    ),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 70, "scale": 0},
        st.integers(-(10**27), 10**27).map(Decimal),
    ),
    ({"type": "int", "connect.type": "int8"}, st.integers(-128, 127)),
]


@st.composite
def typed(draw, depth=3):  # noqa: PLR0911 - one for each kind
    """A schema, and a strategy of its values. All names are the same."""
    name = "N"
    kinds = ["simple", "logical", "enum", "fixed"]
    kinds += ["optional", "record", "array", "map", "union", "entries"] if depth else []
    match draw(st.sampled_from(kinds)):
        case "simple":
            kind = draw(st.sampled_from(sorted(SIMPLE)))
            return kind, SIMPLE[kind]
        case "logical":
            return draw(st.sampled_from(LOGICAL))
        case "enum":
            schema = {"type": "enum", "name": name, "symbols": ["A", "B", "C"]}
            return schema, st.sampled_from("ABC")
        case "fixed":
            size = draw(st.integers(1, 5))
            schema = {"type": "fixed", "name": name, "size": size}
            return schema, st.binary(min_size=size, max_size=size)
        case "optional":
            kind, values = draw(typed(depth - 1).filter(lambda one: not isinstance(one[0], list)))
            branches = ["null", kind] if draw(st.booleans()) else [kind, "null"]
            return branches, st.none() | values
        case "array":
            kind, values = draw(typed(depth - 1))
            return {"type": "array", "items": kind}, st.lists(values, max_size=4)
        case "map":
            kind, values = draw(typed(depth - 1))
            pairs = st.dictionaries(st.text(max_size=3), values, max_size=3)
            return {"type": "map", "values": kind}, pairs
        case "entries":
            kind, values = draw(typed(depth - 1))
            entry = {
                "type": "record", "name": name, "connect.internal.type": "MapEntry",
                "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": kind}],
            }  # fmt: skip
            pairs = st.fixed_dictionaries({"key": SIMPLE["int"], "value": values})
            return {"type": "array", "items": entry}, st.lists(pairs, max_size=3)
        case "union":
            values = st.none() | SIMPLE["long"] | SIMPLE["string"] | st.booleans()
            return ["null", "long", "string", "boolean"], values
    parts = [draw(typed(depth - 1)) for _ in range(draw(st.integers(1, 4)))]
    fields = [{"name": f"f{at}", "type": kind} for at, (kind, _) in enumerate(parts)]
    values = st.fixed_dictionaries({f"f{at}": one for at, (_, one) in enumerate(parts)})
    return {"type": "record", "name": name, "fields": fields}, values


@st.composite
def records(draw):
    """A record's schema, and values of it."""
    kind, values = draw(typed())
    fields = [{"name": "id", "type": "long"}, {"name": "v", "type": kind}]
    rows = st.fixed_dictionaries({"id": SIMPLE["long"], "v": values})
    schema = {"type": "record", "name": "R", "fields": fields}
    return numbered(schema, itertools.count()), draw(st.lists(rows, min_size=1, max_size=6))


def numbered(schema, numbers):
    """Give each type of a schema a name of its own."""
    if isinstance(schema, list):
        return [numbered(one, numbers) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: numbered(one, numbers) for key, one in schema.items()}
    if found.get("name") == "N":
        found["name"] = f"N{next(numbers)}"
    return found


def write(schema, values):
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    found = []
    for value in values:
        into = io.BytesIO()
        fastavro.schemaless_writer(into, parsed, value)
        found.append(into.getvalue())
    return found


def decode(schema, messages):
    """Return values, and the reason of each message that has none."""
    kind = parse_avro_schema(json.dumps(schema))
    column = to_arrow_field(to_connect(kind, OPTIONS)).type
    starts = np.cumsum([0, *map(len, messages)])
    data = np.frombuffer(b"".join(messages), np.uint8)
    values, reasons = AvroDecoder(kind, column).decode(data, starts[:-1], starts[1:])
    values.validate(full=True)
    return values, [REASONS[one] for one in reasons]


def encode(schema, values, column=None):
    kind = parse_avro_schema(json.dumps(schema))
    field = column or to_arrow_field(to_connect(kind, OPTIONS))
    return AvroEncoder(kind, field, OPTIONS).encode(values)


def as_row(kind, value):
    """Return a value of fastavro's as Arrow gives it."""
    if value is None:
        return None
    if kind.kind == "union" and kind.optional is None:
        named = {bool: "boolean", int: "long", str: "string"}[type(value)]
        return {one: value if one == named else None for one in ("long", "string", "boolean")}
    if kind.kind == "union":
        return as_row(kind.optional, value)
    if kind.kind == "record":
        return {one.name: as_row(one.type, value[one.name]) for one in kind.fields}
    if kind.kind == "map":
        return [(key, as_row(kind.items, one)) for key, one in value.items()]
    if kind.kind == "array" and kind.items.props.get("connect.internal.type"):
        return [(one["key"], as_row(kind.items.fields[1].type, one["value"])) for one in value]
    if kind.kind == "array":
        return [as_row(kind.items, one) for one in value]
    return value


@given(records())
def test_values_are_those_that_fastavro_wrote(one):
    schema, rows = one
    values, reasons = decode(schema, write(schema, rows))
    assert not any(reasons)
    kind = parse_avro_schema(json.dumps(schema))
    assert values.to_pylist() == [as_row(kind, row) for row in rows]


@given(records())
def test_bytes_are_those_that_fastavro_writes(one):
    schema, rows = one
    messages = write(schema, rows)
    values, _ = decode(schema, messages)
    for part in (slice(None), slice(1, None), slice(0, 1)):  # columns that begin in the middle
        pieces, failed = encode(schema, values[part])
        assert failed == {}
        assert pieces.to_pylist() == messages[part]


@given(records(), st.data())
def test_broken_bytes_are_rejected_alone_or_mean_what_fastavro_says(one, data):
    schema, rows = one
    messages = write(schema, rows)
    place = data.draw(st.integers(0, len(messages) - 1))
    broken = bytearray(messages[place])
    how = data.draw(st.sampled_from(["cut", "change", "insert", "random"]))
    at = data.draw(st.integers(0, len(broken)))
    match how:
        case "cut":
            del broken[at:]
        case "change" if at < len(broken):
            broken[at] = data.draw(st.integers(0, 255))
        case "insert":
            broken[at:at] = data.draw(st.binary(min_size=1, max_size=12))
        case "random":
            broken = bytearray(data.draw(st.binary(max_size=40)))
    expected, _ = decode(schema, messages)
    alone, (reason,) = decode(schema, [bytes(broken)])
    messages[place] = bytes(broken)
    values, reasons = decode(schema, messages)
    others = [row for row in range(len(messages)) if row != place]
    assert values.take(pa.array(others, pa.int64())).equals(
        expected.take(pa.array(others, pa.int64()))
    )
    assert [reasons[row] for row in others] == [""] * len(others)
    assert reasons[place] == reason
    if not reason:
        assert values[place] == alone[0] or "nan" in str(alone[0])
        source = io.BytesIO(bytes(broken))
        parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
        try:
            fastavro.schemaless_reader(source, parsed)
        except (OverflowError, ValueError):  # a date that Python's type does not have
            return
        assert source.read() == b""


RECORD_OF = {"type": "record", "name": "R", "fields": [{"name": "a", "type": None}]}


def record_of(kind):
    return {**RECORD_OF, "fields": [{"name": "a", "type": kind}]}


HUGE = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"
LOWEST = b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"


@pytest.mark.parametrize(
    ("kind", "message", "reason"),
    [
        ("string", HUGE + b"aa", 3), ("string", b"\x03aa", 3), ("string", b"\x04\xffa", 5),
        ("bytes", HUGE, 3), ("long", b"", 1), ("long", b"\xff" * 9 + b"\x02", 2),
        ("long", b"\xff" * 12, 2), ("int", b"\x80\x80\x80\x80\x10", 6), ("boolean", b"\x02", 4),
        ("float", b"123", 1), ("double", b"1234567", 1), (["null", "string"], b"\x04", 4),
        (["null", "string"], b"\x01", 4), ({"type": "fixed", "name": "F", "size": 4}, b"123", 3),
        ({"type": "fixed", "name": "F", "size": 2**30}, b"123", 3),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02", 4),
        ({"type": "array", "items": "long"}, HUGE + b"\x00", 3),
        ({"type": "array", "items": "long"}, LOWEST + b"\x00\x00", 3),
        ({"type": "array", "items": {"type": "record", "name": "E", "fields": []}}, HUGE, 3),
        ({"type": "array", "items": "long"}, b"\x02\x02", 1),
        ({"type": "map", "values": "long"}, b"\x02\x02\xff\x02\x00", 5),
        ({"type": "int", "logicalType": "time-millis"}, b"\x01", 6),
        ({"type": "int", "connect.type": "int8"}, b"\x80\x02", 6),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 0}, b"\x02\x64", 6),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 0}, b"\x00", 6),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 0},
         b"\x28\x01" + b"\x00" * 19, 6),
        ("long", b"\x02\x02", 8),
    ],
)  # fmt: skip
def test_bytes_that_mean_nothing_are_rejected_and_their_neighbours_not(kind, message, reason):
    schema = record_of(kind)
    good = {"string": "x", "long": 7, "bytes": b"x", "int": 7, "boolean": True}
    value = good.get(kind if isinstance(kind, str) else "")
    around = write(schema, [{"a": value}]) if value is not None else []
    values, reasons = decode(schema, [*around, message, *around])
    assert reasons[len(around)] == REASONS[reason]
    assert [one for one in reasons if one] == [REASONS[reason]]
    assert values.to_pylist()[: len(around)] == [{"a": value}] * len(around)


def test_twin_without_its_bound_a_text_has_bytes_of_its_neighbour(monkeypatch):
    messages = [b"\x06a", b"\x02b"]
    assert decode(record_of("string"), messages)[1][0] == REASONS[3]
    monkeypatch.setattr(ByteReader, "check_room", lambda *_: None)
    assert decode(record_of("string"), messages)[0][0].as_py() == {"a": "a\x02b"}


def test_blocks_of_a_list_may_have_their_size_before_them():
    message = b"\x03\x04\x02\x04" + b"\x02\x06" + b"\x00"
    values, reasons = decode(record_of({"type": "array", "items": "long"}), [message])
    assert (values.to_pylist(), reasons) == ([{"a": [1, 2, 3]}], [""])


@pytest.mark.timed("the rounds must not be those of the longest list")
@pytest.mark.parametrize("kind", ["string", ["null", "long"], "double"])
def test_a_long_list_takes_no_round_an_item(kind):
    values = {"string": "é", "double": 0.5}.get(kind if isinstance(kind, str) else "", 5)
    schema = record_of({"type": "array", "items": kind})
    rows = [{"a": [values] * 150_000}, {"a": [values] * 3}]
    messages = write(schema, rows)
    messages[1] = messages[1][:-2]
    began = time.process_time()
    found, reasons = decode(schema, [*messages, messages[0]])
    assert time.process_time() - began < 5
    assert [bool(one) for one in reasons] == [False, True, False]
    assert found[2].as_py() == rows[0]


def test_lists_of_lists_have_a_bound():
    schema = record_of({"type": "array", "items": {"type": "array", "items": "long"}})
    message = write(schema, [{"a": [[]] * 110_000}])[0]
    _, (reason, good) = decode(schema, [message, write(schema, [{"a": [[1]]}])[0]])
    assert (reason, good) == (REASONS[7], "")


def test_bytes_alone_are_the_message():
    messages = [b"\x00\xff", b"", b"abc"]
    values, reasons = decode("bytes", messages)
    assert (values.to_pylist(), reasons) == (messages, ["", "", ""])
    assert encode("bytes", values)[0].to_pylist() == messages


@pytest.mark.parametrize(
    "schema",
    [
        "{", '"nothing"', "[]", '{"type": "record", "name": "R"}', '{"type": "fixed", "name": "F"}',
        '{"type": "enum", "name": "E", "symbols": [1]}', "7", '[["null"]]', '{"type": "array"}',
        '{"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", "R"]}]}',
        json.dumps(record_of("int") | {"fields": [{"name": "a", "type": "int"}] * 2}),
        '{"type": "array", "items": ' * 100 + '"int"' + "}" * 100,
        '{"type": "array", "items": ' * 5000 + '"int"' + "}" * 5000,
    ],
)  # fmt: skip
def test_what_is_no_schema_is_refused(schema):
    with pytest.raises(InvalidSchemaError):
        parse_avro_schema(schema)


def test_a_schema_that_names_itself_into_billions_is_refused():
    inner = {"type": "record", "name": "R0", "fields": [{"name": "a", "type": "int"}]}
    for at in range(1, 40):
        name = f"R{at - 1}"
        fields = [{"name": "a", "type": inner}, *({"name": n, "type": name} for n in "bcd")]
        inner = {"type": "record", "name": f"R{at}", "fields": fields}
    with pytest.raises(InvalidSchemaError, match="more than"):
        parse_avro_schema(json.dumps(inner))


def test_rows_that_a_type_cannot_hold_have_their_reason():
    schema = {
        "type": "record", "name": "R", "fields": [
            {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A"]}},
            {"name": "t", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "f", "type": {"type": "fixed", "name": "F", "size": 2}},
            {"name": "n", "type": "int"},
            {"name": "l", "type": {"type": "array", "items": "int"}},
        ],
    }  # fmt: skip
    good = {"e": "A", "t": EPOCH, "f": b"ab", "n": 1, "l": [1]}
    wrong = [
        {"e": "B"}, {"t": EPOCH + timedelta(microseconds=1)}, {"f": b"abc"}, {"n": 2**40},
        {"n": None}, {"l": [1, None]}, {"l": [2**33]},
    ]  # fmt: skip
    rows = [good, *(good | one for one in wrong), good]
    column = pa.struct(
        [
            ("e", pa.string()), ("t", pa.timestamp("us", "UTC")), ("f", pa.binary()),
            ("n", pa.int64()), ("l", pa.list_(pa.int64())),
        ]
    )  # fmt: skip
    pieces, failed = encode(schema, pa.array(rows, column), pa.field("value", column))
    assert sorted(failed) == list(range(1, len(rows) - 1))
    assert pieces[0] == pieces[len(rows) - 1]
    assert pieces[0].as_py() == write(schema, [good])[0]


def test_decimals_have_the_bytes_of_java():
    numbers = [0, 1, -1, 127, 128, -128, -129, 255, 256, 10**11, -(10**11)]
    column = pa.array([Decimal(n).scaleb(-2) for n in numbers], pa.decimal128(20, 2))
    schema = record_of({"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2})
    rows = pa.StructArray.from_arrays([column], names=["a"])
    pieces, failed = encode(schema, rows, pa.field("value", rows.type))
    assert failed == {}
    for number, piece in zip(numbers, pieces.to_pylist(), strict=True):
        size = (number + (number < 0)).bit_length() // 8 + 1
        assert piece == bytes([2 * size]) + number.to_bytes(size, "big", signed=True)


def test_columns_and_types_that_do_not_fit_are_told_before_any_row():
    text = pa.field("value", pa.struct([("a", pa.string())]))
    for kind in ("long", "boolean", {"type": "array", "items": "string"}, ["null", "double"]):
        with pytest.raises(InvalidSchemaError, match="column 'a' of type string"):
            encode(record_of(kind), pa.array([], text.type), text)
    more = pa.field("value", pa.struct([("a", pa.string()), ("b", pa.string())]))
    with pytest.raises(InvalidSchemaError, match="has no field 'b'"):
        encode(record_of("string"), pa.array([], more.type), more)
    fewer = pa.field("value", pa.struct([("c", pa.string())]))
    with pytest.raises(InvalidSchemaError, match="no field 'c'"):
        encode(record_of("string"), pa.array([], fewer.type), fewer)


def test_fields_that_rows_lack_have_their_default():
    schema = {
        "type": "record", "name": "R", "fields": [
            {"name": "a", "type": "long"},
            {"name": "s", "type": "string", "default": "é"},
            {"name": "o", "type": ["null", "int"], "default": None},
            {"name": "p", "type": ["int", "null"], "default": 5},
            {"name": "b", "type": "bytes", "default": "\u00ff"},
            {"name": "l", "type": {"type": "array", "items": "int"}, "default": [1]},
            {"name": "m", "type": {"type": "map", "values": "int"}, "default": {}},
            {"name": "r", "default": {"x": 1}, "type": {
                "type": "record", "name": "I", "fields": [{"name": "x", "type": "int"}]}},
        ],
    }  # fmt: skip
    rows = pa.array([{"a": 1}, {"a": 2}])
    pieces, failed = encode(schema, rows, pa.field("value", rows.type))
    assert failed == {}
    filled = {"s": "é", "o": None, "p": 5, "b": b"\xff", "l": [1], "m": {}, "r": {"x": 1}}
    assert pieces.to_pylist() == write(schema, [{"a": at, **filled} for at in (1, 2)])


@pytest.mark.timed("a loop over messages is ten times slower")
def test_four_fields_of_many_messages_take_little_time():
    """Both directions do more than a million messages a second; the bound has
    room for a slow machine. One object a message would take five times as long.
    """
    schema = {
        "type": "record", "name": "R", "fields": [
            {"name": "id", "type": "long"}, {"name": "name", "type": "string"},
            {"name": "price", "type": "double"}, {"name": "note", "type": ["null", "string"]},
        ],
    }  # fmt: skip
    row = {"id": 123_456, "name": "a name", "price": 0.5, "note": "a note"}
    messages = write(schema, [row]) * 200_000
    kind = parse_avro_schema(json.dumps(schema))
    field = to_arrow_field(to_connect(kind, OPTIONS))
    starts = np.arange(len(messages) + 1) * len(messages[0])
    data = np.frombuffer(b"".join(messages), np.uint8)
    began = time.process_time()
    values, _ = AvroDecoder(kind, field.type).decode(data, starts[:-1], starts[1:])
    decoded = time.process_time()
    AvroEncoder(kind, field, OPTIONS).encode(values)
    assert decoded - began < 0.2, "a million a second"
    assert time.process_time() - decoded < 0.2, "a million a second"


@pytest.mark.timed("a loop over messages is ten times slower")
def test_few_messages_take_no_time_for_many():
    schema = record_of(["null", "string"])
    messages = write(schema, [{"a": "x"}])
    began = time.process_time()
    for _ in range(50):
        decode(schema, messages)
    assert (time.process_time() - began) / 50 < 0.01


def test_logical_types_of_other_kinds_are_plain_numbers_as_in_kafka_connect():
    micros = {"type": "long", "logicalType": "timestamp-micros"}
    values, _ = decode(record_of(micros), [b"\x02"])
    assert values.to_pylist() == [{"a": 1}]
    rows = pa.array(
        [{"a": EPOCH + timedelta(microseconds=1)}], pa.struct([("a", pa.timestamp("us", "UTC"))])
    )
    pieces, failed = encode(record_of(micros), rows, pa.field("value", rows.type))
    assert (pieces.to_pylist(), failed) == ([b"\x02"], {})


def test_dates_times_and_floats_are_exact():
    schema = record_of({"type": "int", "logicalType": "date"})
    values, _ = decode(
        schema, write(schema, [{"a": date(1582, 10, 10)}, {"a": date(9999, 12, 31)}])
    )
    assert values.to_pylist() == [{"a": date(1582, 10, 10)}, {"a": date(9999, 12, 31)}]
    schema = record_of({"type": "int", "logicalType": "time-millis"})
    values, _ = decode(schema, write(schema, [{"a": time_of_day(23, 59, 59, 999_000)}]))
    assert values.to_pylist() == [{"a": time_of_day(23, 59, 59, 999_000)}]
    nan = struct.pack("<d", float("nan"))
    values, _ = decode(record_of("double"), [nan, struct.pack("<d", -0.0)])
    assert encode(record_of("double"), values)[0].to_pylist() == [nan, struct.pack("<d", -0.0)]
