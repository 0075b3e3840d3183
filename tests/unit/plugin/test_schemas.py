"""Arrow schemas of foreign plugins: bounded and checked."""

from contextlib import suppress

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.api.record.v1 import record_pb2 as pb
from penstock.model.errors import InternalError
from penstock.model.stream import StreamSchema
from penstock.plugin import protocol_rules
from penstock_values import schemas


def message(schema, **more):
    data = schema if isinstance(schema, bytes) else schema.serialize().to_pybytes()
    return pb.Schema(schema_id=7, dataset="d", arrow_schema=data, **more)


def nested(depth):
    made = pa.int8()
    for _ in range(depth - 1):
        made = pa.list_(made)
    return pa.schema([("a", made)])


def test_a_schema_goes_there_and_back():
    arrow = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.decimal128(9, 2))])
    schema = StreamSchema(7, "d", arrow.with_metadata({"m": "1"}), ("k",))
    back = protocol_rules.schema_from_proto(protocol_rules.schema_to_proto(schema))
    assert back == schema
    assert back.arrow.metadata == {b"m": b"1"}


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (message(b""), "not an Arrow"),
        (message(b"\xff" * 64), "not an Arrow"),
        (message(b"\0" * (schemas.MAX_BYTES + 1)), "larger"),
        (message(pa.schema([(f"c{i}", pa.int8()) for i in range(10_001)])), "10001 columns"),
        (message(pa.schema([("a", pa.int8()), ("a", pa.int8())])), "twice"),
        (message(nested(33)), "deeper"),
        (message(pa.schema([("a", pa.int8())]), key_columns=["b"]), "'b'"),
        (message(pa.schema([("__op", pa.string())])), "__op"),
        (message(pa.schema([("__ts_us", pa.timestamp("us"))])), "__ts_us"),
        (message(pa.schema([("__offset", pa.string())])), "__offset"),
    ],
)
def test_a_bad_schema_is_refused(bad, says):
    with pytest.raises(InternalError, match=says) as caught:
        protocol_rules.schema_from_proto(bad)
    assert caught.value.code == "plugin.protocol.bad_schema"


@pytest.mark.parametrize(
    "good",
    [
        nested(32),
        pa.schema([(f"c{i}", pa.int8()) for i in range(10_000)]),
        pa.schema([("__headers", pa.map_(pa.string(), pa.binary())), ("__key", pa.int8())]),
        pa.schema([("a", pa.dictionary(pa.int8(), pa.string()))]),
        pa.schema([]),
    ],
)
def test_a_large_but_lawful_schema_passes(good):
    assert protocol_rules.schema_from_proto(message(good)).arrow == good


@given(st.binary(max_size=400), st.integers(0, 300))
def test_no_bytes_break_the_decoder(noise, at):
    whole = pa.schema([("a", pa.list_(pa.int8())), ("b", pa.string())]).serialize().to_pybytes()
    for data in (noise, whole[:at] + noise + whole[at + len(noise) :]):
        with suppress(InternalError):
            protocol_rules.schema_from_proto(message(data))
