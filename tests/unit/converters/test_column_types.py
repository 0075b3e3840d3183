"""Each type that a column may have, through each converter with schemas: the value comes back."""

from datetime import UTC, date, datetime, time
from decimal import Decimal

import pyarrow as pa
import pytest

from penstock_converters.registry import create_converter
from penstock_converters.schema_registry import schemas as schemas_of_registry

from .test_avro_converter import Schemas

AT = datetime(2026, 11, 26, 12, 0, 0, tzinfo=UTC)
COLUMNS = [
    (pa.large_string(), "é"), (pa.string_view(), ""), (pa.large_binary(), b"\0"),
    (pa.binary_view(), b"x" * 20), (pa.binary(3), b"abc"), (pa.list_(pa.int32(), 2), [1, 2]),
    (pa.large_list(pa.string()), ["a"]), (pa.uint8(), 255), (pa.uint16(), 65535),
    (pa.uint32(), 2**32 - 1), (pa.uint64(), 2**64 - 1), (pa.float16(), 0.5), (pa.float32(), -0.0),
    (pa.float64(), 1e300), (pa.bool_(), False), (pa.int8(), -128), (pa.int16(), -1),
    (pa.date64(), date(1582, 10, 10)), (pa.date32(), date(9999, 12, 31)),
    (pa.time32("s"), time(23, 59, 59)), (pa.time64("ns"), time(0, 0, 1)),
    (pa.timestamp("s"), AT), (pa.timestamp("ns", "Europe/Berlin"), AT),
    (pa.decimal128(38, 10), Decimal("-12345.0123456789")), (pa.decimal256(70, 0), Decimal(10**69)),
    (pa.struct([("a", pa.list_(pa.struct([("b", pa.uint8())])))]), {"a": [{"b": 1}]}),
    (pa.map_(pa.string(), pa.list_(pa.int64())), None),
]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def schemas():
    with pytest.MonkeyPatch.context() as patch:
        found = Schemas()
        patch.setattr(schemas_of_registry, "RegistryClient", lambda *_: found)
        yield


def plain(value):
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    return value


CASES = [
    pytest.param(converter, kind, value, id=f"{converter}-{str(kind)[:30]}")
    for converter in ("json", "avro", "json-schema", "protobuf")
    for kind, value in COLUMNS
    if converter != "protobuf" or not pa.types.is_map(kind)  # which takes no map of lists
]


@pytest.mark.parametrize(("converter", "kind", "value"), CASES)
def test_a_value_of_each_type_comes_back(converter, kind, value):
    more = {"optional.for.nullables": "true"} if converter == "protobuf" else {}
    config = {} if converter == "json" else {"schema.registry.url": "http://registry:8081", **more}
    made = create_converter(converter, config)
    is_list = pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    null = [] if converter == "protobuf" and is_list else None  # Protobuf has no null for lists
    rows = pa.StructArray.from_arrays([pa.array([value, None, value], kind)], names=["v"])
    field = pa.field("value", rows.type, nullable=False)
    for part in (rows, rows.slice(1, 2)):
        encoded = made.encode(part, field, f"{kind}"[:50])
        assert encoded.rejected == ()
        decoded = made.decode(encoded.column, "t")
        assert decoded.rejected == ()
        (run,) = decoded.runs
        run.column.validate(full=True)
        found = [plain(one["v"]) for one in run.column.to_pylist()]
        given = [plain(one["v"]) for one in part.to_pylist()]
        assert found == [null if one is None else one for one in given]
