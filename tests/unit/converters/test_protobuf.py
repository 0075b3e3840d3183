"""Protobuf's bytes to columns and back: Google's library, whose schemas are those that the compiler
makes of the same text, is asked what is right.
"""

import base64
import struct
import time
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_tools import protoc
from hypothesis import given
from hypothesis import strategies as st

from penstock_converters import InvalidConverterError, SchemaRefusedError
from penstock_converters.protobuf.connect import ProtoOptions, to_connect
from penstock_converters.protobuf.schema import parse_proto
from penstock_converters.registry import create_converter
from penstock_converters.schema_registry import schemas as schemas_of_registry
from penstock_converters.schema_registry.client import Reference, RegisteredSchema

from .test_avro_converter import Schemas

URL = {"schema.registry.url": "http://registry:8081"}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

ALL = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import 'google/protobuf/wrappers.proto';
/* of all kinds */
message All {
  option deprecated = false;
  reserved 100 to 110; reserved "gone";
  enum State { UNKNOWN = 0; NEW = 1; PAID = 5; LOST = -1; }
  message Line { int32 n = 1; repeated string tags = 2; State state = 3; }
  int32 i32 = 1; sint32 s32 = 2; uint32 u32 = 3; fixed32 f32 = 4; sfixed32 sf32 = 5;
  int64 i64 = 6; sint64 s64 = 7; uint64 u64 = 8; fixed64 f64 = 9; sfixed64 sf64 = 10;
  float fl = 11; double db = 12; bool bo = 13; string st = 14; bytes by = 15;  // scalars
  State state = 16; optional int32 oi = 17; optional string os = 18;
  repeated int32 ri = 19; repeated sint64 rs = 20 [packed = false]; repeated double rd = 21;
  repeated string rt = 22; repeated Line lines = 23; Line line = 24; repeated State states = 25;
  map<string, int32> m1 = 26; map<int64, Line> m2 = 27;
  oneof pick { int32 pi = 28; string ps = 29; Line pl = 30; }
  google.protobuf.Timestamp at = 31; google.protobuf.Int64Value wrapped = 200;
  repeated bool flags = 2000 [deprecated = true, packed = true];
}
"""
INTS = {
    "i32": (-(2**31), 2**31 - 1), "s32": (-(2**31), 2**31 - 1), "u32": (0, 2**32 - 1),
    "f32": (0, 2**32 - 1), "sf32": (-(2**31), 2**31 - 1), "i64": (-(2**63), 2**63 - 1),
    "s64": (-(2**63), 2**63 - 1), "u64": (0, 2**63 - 1), "f64": (0, 2**63 - 1),
    "sf64": (-(2**63), 2**63 - 1), "oi": (-(2**31), 2**31 - 1),
}  # fmt: skip
SYMBOLS = ["UNKNOWN", "NEW", "PAID", "LOST"]
LINES = st.fixed_dictionaries(
    {},
    optional={
        "n": st.integers(-5, 5), "tags": st.lists(st.text(max_size=2), max_size=3),
        "state": st.sampled_from(SYMBOLS),
    },
)  # fmt: skip
ROWS = st.fixed_dictionaries(
    {},
    optional={
        **{name: st.integers(*bounds) for name, bounds in INTS.items()},
        "fl": st.floats(width=32, allow_nan=False), "db": st.floats(allow_nan=False),
        "bo": st.booleans(), "st": st.text(max_size=5), "by": st.binary(max_size=300),
        "state": st.sampled_from(SYMBOLS), "os": st.text(max_size=3),
        "ri": st.lists(st.integers(-(2**31), 2**31 - 1), max_size=5),
        "rs": st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4),
        "rd": st.lists(st.floats(allow_nan=False), max_size=3),
        "rt": st.lists(st.text(max_size=3), max_size=4), "lines": st.lists(LINES, max_size=3),
        "line": LINES, "states": st.lists(st.sampled_from(SYMBOLS), max_size=4),
        "m1": st.dictionaries(st.text(max_size=2), st.integers(-5, 5), max_size=3),
        "m2": st.dictionaries(st.integers(-5, 5), LINES, max_size=2),
        "flags": st.lists(st.booleans(), max_size=3),
        "at": st.integers(-(10**15), 10**16),
        "wrapped": st.integers(-5, 5),
        "pick": st.one_of(
            st.tuples(st.just("pi"), st.integers(-5, 5)),
            st.tuples(st.just("ps"), st.text(max_size=2)),
            st.tuples(st.just("pl"), LINES),
        ),
    },
)  # fmt: skip


@pytest.fixture(scope="module")
def schemas():
    found = Schemas()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schemas_of_registry, "RegistryClient", lambda *_: found)
        yield found


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """Return classes of messages as Google's library makes them."""
    known = {}

    def compile_text(text, name):
        if text not in known:
            folder = tmp_path_factory.mktemp("proto")
            (folder / "a.proto").write_text(text)
            include = Path(protoc.__file__).parent / "_proto"
            out = folder / "out"
            words = ["", f"-I{folder}", f"-I{include}", "--include_imports"]
            assert protoc.main([*words, f"--descriptor_set_out={out}", "a.proto"]) == 0
            files = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())
            pool = descriptor_pool.DescriptorPool()
            for one in files.file:
                pool.Add(one)
            known[text] = pool
        return message_factory.GetMessageClass(known[text].FindMessageTypeByName(name))

    return compile_text


def fill(message, row):
    """Set the fields of a message of Google's library."""
    for name, value in row.items():
        if name == "pick":
            fill(message, dict([value]))
        elif name == "at":
            message.at.seconds, micros = divmod(value, 1_000_000)
            message.at.nanos = micros * 1000
        elif name == "wrapped":
            message.wrapped.value = value
        elif name in ("line", "pl"):
            getattr(message, name).SetInParent()
            fill(getattr(message, name), value)
        elif name in ("state", "states"):
            fill_enum(message, name, value)
        elif isinstance(value, list | dict):
            fill_many(getattr(message, name), value)
        else:
            setattr(message, name, value)
    return message


def fill_enum(message, name, value):
    numbers = message.DESCRIPTOR.fields_by_name[name].enum_type.values_by_name
    if name == "state":
        message.state = numbers[value].number
    else:
        message.states.extend(numbers[one].number for one in value)


def fill_many(field, value):
    """Set the items of a list, or of a map."""
    if isinstance(value, list):
        for one in value:
            if isinstance(one, dict):
                fill(field.add(), one)
            else:
                field.append(one)
        return
    for key, one in value.items():
        if isinstance(one, dict):
            fill(field[key], one)
        else:
            field[key] = one


def line_of(row):
    return {"n": row.get("n", 0), "tags": row.get("tags", []), "state": row.get("state", "UNKNOWN")}


def as_row(row):
    """Return what Arrow has of a row that was filled in."""
    chosen = dict([row["pick"]]) if "pick" in row else None
    pick = None
    if chosen is not None:
        pick = {name: chosen.get(name) for name in ("pi", "ps")}
        pick["pl"] = line_of(chosen["pl"]) if "pl" in chosen else None
    lists = {name: row.get(name, []) for name in ("ri", "rs", "rd", "rt", "states", "flags")}
    return {
        "pick_0": pick,
        **{name: row.get(name, 0) for name in INTS if name != "oi"},
        "fl": row.get("fl", 0.0), "db": row.get("db", 0.0), "bo": row.get("bo", False),
        "st": row.get("st", ""), "by": row.get("by", b""), "state": row.get("state", "UNKNOWN"),
        "oi": row.get("oi"), "os": row.get("os"), **lists,
        "lines": [line_of(one) for one in row.get("lines", [])],
        "line": line_of(row["line"]) if "line" in row else None,
        "m1": sorted(row.get("m1", {}).items()),
        "m2": sorted((key, line_of(one)) for key, one in row.get("m2", {}).items()),
        "at": EPOCH + timedelta(microseconds=row["at"]) if "at" in row else None,
        "wrapped": {"value": row["wrapped"]} if "wrapped" in row else None,
    }  # fmt: skip


def described(compiled, text, name):
    """Return a schema in the compiler's form."""
    file = descriptor_pb2.FileDescriptorProto()
    compiled(text, name).DESCRIPTOR.file.CopyToProto(file)
    return base64.b64encode(file.SerializeToString()).decode()


@pytest.mark.parametrize(("text", "name"), [("ALL", "shop.All"), ("TWO", "A"), ("OLD", "P")])
def test_both_forms_of_a_schema_are_the_same(compiled, text, name):
    text = {"ALL": ALL, "TWO": TWO, "OLD": OLD}[text]
    options = ProtoOptions(enhanced=True)
    forms = [parse_proto(text), parse_proto(described(compiled, text, name))]
    assert forms[0].messages[0].oneofs == forms[1].messages[0].oneofs
    for path in ([0], [0, 0], [1]):
        found = [form.message_at(path) for form in forms]
        assert (found[0] is None) == (found[1] is None)
        if found[0] is not None and found[1] is not None:
            assert to_connect(found[0], options) == to_connect(found[1], options)
            assert [
                (one.label, one.packed) for one in found[0].fields if one.kind != "message"
            ] == [(one.label, one.packed) for one in found[1].fields if one.kind != "message"]


def add(schemas, text, references=()):
    number = len(schemas.by_id) + 1
    schemas.by_id[number] = RegisteredSchema("PROTOBUF", text, tuple(references), number)
    return number


def framed(number, payloads, path=b"\0"):
    head = b"\0" + number.to_bytes(4, "big") + path
    return pa.array([head + one for one in payloads], pa.binary())


@given(st.lists(ROWS, min_size=1, max_size=5))
def test_values_are_those_that_googles_library_wrote(schemas, compiled, rows):
    kind = compiled(ALL, "shop.All")
    data = [fill(kind(), row).SerializeToString(deterministic=True) for row in rows]
    found = create_converter("protobuf", URL).decode(framed(add(schemas, ALL), data), "t")
    assert found.rejected == ()
    (run,) = found.runs
    run.column.validate(full=True)
    values = run.column.to_pylist()
    for one in values:
        one["m1"].sort()
        one["m2"].sort(key=lambda pair: pair[0])
    assert values == [as_row(row) for row in rows]


@given(st.lists(ROWS, min_size=1, max_size=5))
def test_what_was_read_is_written_as_googles_library_reads_it(schemas, compiled, rows):
    kind = compiled(ALL, "shop.All")
    whole = [fill(kind(), row) for row in rows]
    schemas.subjects["w-value"] = add(schemas, ALL)
    latest = URL | {"auto.register.schemas": "false", "use.latest.version": "true"}
    made = create_converter("protobuf", latest)
    data = [one.SerializeToString() for one in whole]
    (run,) = made.decode(framed(schemas.subjects["w-value"], data), "w").runs
    unions = pa.field("value", run.field.type, nullable=False)
    encoded = made.encode(run.column, unions, "w")
    assert encoded.rejected == ()
    assert [kind.FromString(one[6:]) for one in encoded.column.to_pylist()] == whole


@given(st.lists(ROWS, min_size=1, max_size=4), st.data())
def test_broken_bytes_are_rejected_alone_or_mean_what_googles_library_says(
    schemas, compiled, rows, data
):
    kind = compiled(ALL, "shop.All")
    messages = [fill(kind(), row).SerializeToString() for row in rows]
    place = data.draw(st.integers(0, len(messages) - 1))
    broken = bytearray(messages[place])
    at = data.draw(st.integers(0, len(broken)))
    match data.draw(st.sampled_from(["cut", "change", "insert", "random"])):
        case "cut":
            del broken[at:]
        case "change" if at < len(broken):
            broken[at] = data.draw(st.integers(0, 255))
        case "insert":
            broken[at:at] = data.draw(st.binary(min_size=1, max_size=12))
        case "random":
            broken = bytearray(data.draw(st.binary(max_size=40)))
    made, number = create_converter("protobuf", URL), add(schemas, ALL)
    expected = made.decode(framed(number, messages), "t").runs[0].column
    messages[place] = bytes(broken)
    found = made.decode(framed(number, messages), "t")
    others = [row for row in range(len(messages)) if row != place]
    kept = [row for run in found.runs for row in run.rows]
    assert [row for row in kept if row != place] == others
    for run in found.runs:
        run.column.validate(full=True)
        mine = [at for at, row in enumerate(run.rows) if row != place]
        right = expected.take(pa.array(others, pa.int64()))
        assert run.column.take(pa.array(mine, pa.int64())).equals(right)
    if place in kept:
        kind.FromString(bytes(broken))


@pytest.mark.parametrize(
    "payload",
    [
        b"\x08", b"\x08\xff", b"\x72\xff\xff\xff\xff\x0f", b"\x72\x05ab", b"\x00", b"\x0b", b"\x0c",
        b"\x72\x01\xff", b"\x0d\0\0\0\0", b"\x5d\0\0", b"\x40" + b"\xff" * 9 + b"\x01",
        b"\x80\x01\x07", b"\xc2\x01\x00\xc2\x01\x00", b"\xaa\x01\x07" + b"x" * 7,
        b"\xfa\x01\x02\x10\x01", b"\xff" * 12,
    ],
)  # fmt: skip
def test_bytes_that_mean_nothing_are_rejected(schemas, payload):
    data = framed(add(schemas, ALL), [b"\x08\x05", payload, b"\x08\x07"])
    found = create_converter("protobuf", URL).decode(data, "t")
    assert [row for row, _ in found.rejected] == [1]
    assert [one["i32"] for run in found.runs for one in run.column.to_pylist()] == [5, 7]


def test_unknown_fields_are_left_out_and_the_last_of_several_is_meant(schemas, compiled):
    unknown = (
        b"\xf8\x7f\x05" + b"\xfa\x7f\x02ab" + b"\xfd\x7f" + b"\0" * 4 + b"\xf9\x7f" + b"\0" * 8
    )
    payload = b"\x08\x01" + unknown + b"\x08\x02" + b"\xe0\x01\x05" + b"\xea\x01\x01x"
    found = create_converter("protobuf", URL).decode(framed(add(schemas, ALL), [payload]), "t")
    (row,) = found.runs[0].column.to_pylist()
    assert (row["i32"], row["pick_0"]) == (2, {"pi": None, "ps": "x", "pl": None})
    assert compiled(ALL, "shop.All").FromString(payload).WhichOneof("pick") == "ps"


OLD = """message P { required int32 r = 1; optional string o = 2 [default = 'x;'];
    repeated int32 l = 3; extensions 100 to max; }"""
TWO = """syntax = "proto3";
message A { int32 x = 1; message B { string y = 1; } }
message C { string z = 1; }
"""


def test_the_message_of_a_schema_is_that_of_its_path(schemas):
    number = add(schemas, TWO)
    parts = [
        (b"\0", b"\x08\x05"), (b"\x02\x00", b"\x08\x06"), (b"\x04\x00\x00", b"\x0a\x01b"),
        (b"\x02\x02", b"\x0a\x01c"), (b"\x02\x04", b""), (b"\x04\x00", b""), (b"\x01", b""),
        (b"\x3e", b""), (b"", b""),
    ]  # fmt: skip
    data = pa.array([b"\0" + number.to_bytes(4, "big") + path + one for path, one in parts])
    found = create_converter("protobuf", URL, is_key=True).decode(data, "t")
    assert [(list(run.rows), run.column.to_pylist()) for run in found.runs] == [
        ([0, 1], [{"x": 5}, {"x": 6}]), ([2], [{"y": "b"}]), ([3], [{"z": "c"}]),
    ]  # fmt: skip
    assert [row for row, _ in found.rejected] == [4, 5, 6, 7, 8]


def test_schemas_are_those_of_kafka_connect():
    found = to_connect(parse_proto(ALL).messages[0], ProtoOptions())
    by_name = {one["field"]: one for one in found["fields"]}
    prefix = "io.confluent.connect.protobuf"
    assert (found["name"], found["fields"][0]["field"]) == ("All", "pick_0")
    assert by_name["pick_0"]["name"] == f"{prefix}.Union.pick"
    assert by_name["u32"] == {
        "type": "int64", "optional": True, "field": "u32",
        "parameters": {f"{prefix}.Type": "uint32", f"{prefix}.Tag": "3"},
    }  # fmt: skip
    assert by_name["state"]["parameters"][f"{prefix}.Enum.PAID"] == "5"
    assert by_name["m2"]["type"] == "map"
    assert by_name["at"]["name"] == "org.apache.kafka.connect.data.Timestamp"
    enhanced = to_connect(parse_proto(ALL).messages[0], ProtoOptions(enhanced=True, wrappers=True))
    assert enhanced["name"] == "shop.All"
    of_wrapped = next(one for one in enhanced["fields"] if one["field"] == "wrapped")
    assert (of_wrapped["type"], of_wrapped["optional"]) == ("int64", True)


COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False), ("small", pa.int8()), ("name", pa.string()),
        ("price", pa.decimal128(9, 2)), ("day", pa.date32()), ("time", pa.time64("us")),
        ("at", pa.timestamp("us", "UTC")), ("tags", pa.list_(pa.string())),
        ("inner", pa.struct([("a", pa.int32()), ("b", pa.list_(pa.struct([("c", pa.bool_())])))])),
        ("by_name", pa.map_(pa.string(), pa.float64())), ("data", pa.binary()),
        ("count", pa.uint64()),
    ]
)  # fmt: skip
ROW = {
    "id": 2**62, "small": -5, "name": "é", "price": Decimal("-12.34"), "day": date(2024, 2, 29),
    "time": (EPOCH + timedelta(hours=23, microseconds=1)).time(),
    "at": EPOCH - timedelta(microseconds=1), "tags": ["a", ""],
    "inner": {"a": 0, "b": [{"c": True}, {"c": False}]}, "by_name": [("x", 0.5), ("", 0.0)],
    "data": b"\0\xff", "count": 2**64 - 1,
}  # fmt: skip


@pytest.mark.parametrize("key", ["optional.for.nullables", "wrapper.for.nullables", ""])
def test_rows_come_back_and_their_schema_is_one_for_the_compiler(schemas, compiled, key):
    made = create_converter("protobuf", URL | ({key: "true"} if key else {}))
    field = pa.field("value", pa.struct(list(COLUMNS)), nullable=False)
    nulls = {name: None for name in COLUMNS.names if name not in ("id", "tags", "by_name")}
    rows = [ROW, ROW | nulls]
    values = pa.array(rows, field.type)
    encoded = made.encode(values, field, f"p{key}")
    assert encoded.rejected == ()
    text = schemas.by_id[int.from_bytes(encoded.column[0].as_py()[1:5], "big")].text
    plain = (
        "".join(  # the compiler of the tests knows no schemas of Confluent's
            line.partition(" [(confluent")[0] + (";" if "[(confluent" in line else "") + "\n"
            for line in text.splitlines()
            if "confluent/meta" not in line
        )
        .replace("google.type", "penstock")
        .replace("confluent.type", "penstock")
    )
    assert parse_proto(text).messages[0].name == "ConnectDefault1"
    assert 'syntax = "proto3";' in plain
    (run,) = made.decode(encoded.column, "t").runs
    back = run.column.to_pylist()
    assert back[0] == ROW
    if key:
        assert back[1] == rows[1] | ({"inner": None})
    else:  # as Confluent's: what was null is the default
        assert (back[1]["name"], back[1]["small"], back[1]["at"]) == ("", 0, None)


def test_wrappers_alone_are_raw_values(schemas):
    text = 'syntax = "proto3"; package google.protobuf; message StringValue { string value = 1; }'
    data = framed(add(schemas, text), [b"\x0a\x01x", b""])
    (run,) = create_converter("protobuf", URL).decode(data, "t").runs
    assert run.column.to_pylist() == ["x", ""]


def test_what_a_schema_imports_is_asked_for(schemas):
    leaf = add(schemas, 'syntax = "proto3"; package n; message Leaf { int32 x = 1; }')
    schemas.subjects["leaf"] = leaf
    text = 'syntax = "proto3"; import "leaf.proto"; message Top { n.Leaf l = 1; .n.Leaf m = 2; }'
    number = add(schemas, text, [Reference("leaf.proto", "leaf", 1)])
    found = create_converter("protobuf", URL).decode(framed(number, [b"\x0a\x02\x08\x05"]), "t")
    assert found.runs[0].column.to_pylist() == [{"l": {"x": 5}, "m": None}]


def test_proto2_knows_what_is_absent(schemas):
    data = framed(add(schemas, OLD), [b"\x08\x05\x18\x01\x18\x02", b"\x08\x00\x12\x00"])
    (run,) = create_converter("protobuf", URL).decode(data, "t").runs
    assert run.column.to_pylist() == [
        {"r": 5, "o": None, "l": [1, 2]}, {"r": 0, "o": "", "l": []},
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "message", "message A {", 'syntax = "proto3"; message A { int32 x = y; }',
        "message A { B b = 1; }", "message A { A a = 1; }", "message A {} message A {}", "§",
        "message A { int32 x = 1; int32 y = 1; }", "message A { group G = 1 { } }", "", "enum E {}",
        "message A " + "{ message A " * 70 + "{}" + "}" * 70, "message A { int32 x 1; }",
        'message A { string s = 1 [default = "unfinished ]; }',
    ],
)  # fmt: skip
def test_schemas_without_columns_are_refused(schemas, text):
    found = create_converter("protobuf", URL).decode(framed(add(schemas, text), [b""]), "t")
    assert [problem.code for _, problem in found.rejected] in (
        ["converter.schema"],
        ["converter.value"],
    )


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (pa.int64(), "only rows with columns"),
        (pa.struct([("l", pa.list_(pa.list_(pa.int32())))]), "lists of lists"),
        (pa.struct([("m", pa.map_(pa.float64(), pa.int32()))]), "keys of the map 'm'"),
    ],
)
def test_rows_that_are_no_messages_are_refused(schemas, column, words):
    with pytest.raises(SchemaRefusedError, match=words):
        create_converter("protobuf", URL).encode(
            pa.array([], column), pa.field("value", column), "t"
        )


def test_items_that_are_null_are_told(schemas):
    values = pa.array([{"l": ["a", None]}, {"l": ["b"]}])
    field = pa.field("value", values.type, nullable=False)
    encoded = create_converter("protobuf", URL).encode(values, field, "n")
    assert [row for row, _ in encoded.rejected] == [0]
    assert encoded.column[1].as_py()[6:] == b"\x0a\x01b"


@pytest.mark.parametrize("key", ["flatten.unions", "generalized.sum.type.support"])
def test_keys_that_are_not_offered_are_refused(key):
    with pytest.raises(InvalidConverterError, match=key):
        create_converter("protobuf", URL | {key: "true"})


@pytest.mark.timed("a loop over messages is ten times slower")
def test_four_fields_of_many_messages_take_little_time(schemas):
    text = """syntax = "proto3";
        message R { int64 id = 1; string name = 2; double price = 3; optional string note = 4; }"""
    payload = b"\x08\x80\x89\x0f\x12\x06a name\x19" + struct.pack("<d", 0.5) + b"\x22\x06a note"
    data = framed(add(schemas, text), [payload] * 200_000)
    made = create_converter("protobuf", URL)
    made.decode(data.slice(0, 1), "t")
    began = time.process_time()
    (run,) = made.decode(data, "t").runs
    decoded = time.process_time()
    made.encode(run.column, run.field, "speed")
    assert decoded - began < 0.4
    assert time.process_time() - decoded < 0.4
