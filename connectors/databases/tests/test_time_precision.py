"""`time.precision.mode`: the types and names that dates and times have in Debezium's messages."""

from datetime import UTC, date, datetime

import pyarrow as pa
import pytest

from penstock_connector import DataError
from penstock_connector.tables.types import INSTANT, STAMP, field
from penstock_databases.cdc.time_precision import MODES, time_field, time_schema, typed_time
from penstock_values.semantic_types import schema_name

MOMENT = datetime.fromisoformat("2018-06-20T15:13:16.120")
FIELDS = {
    "date": (field("c", pa.date32()), date(2018, 6, 20)),
    "time(3)": (field("c", pa.string(), "time", digits=3), "15:13:16.120"),
    "time": (field("c", pa.string(), "time"), "15:13:16.945104"),
    "timestamp(3)": (field("c", STAMP, digits=3), MOMENT),
    "timestamp": (field("c", STAMP), MOMENT),
    "timestamptz": (field("c", INSTANT), MOMENT.replace(tzinfo=UTC)),
    "timetz": (field("c", pa.string(), "timetz"), "17:13:16.5+02"),
    "year": (field("c", pa.int32(), "year"), 2018),
}
CONNECT = "org.apache.kafka.connect.data."
MILLIS = 1_529_507_596_120
DAYS = 17702

EXPECTED = {
    "adaptive": [
        ("Date", DAYS), ("Time", 54_796_120), ("MicroTime", 54_796_945_104), ("Timestamp", MILLIS),
        ("MicroTimestamp", MILLIS * 1000),
    ],
    "adaptive_time_microseconds": [
        ("Date", DAYS), ("MicroTime", 54_796_120_000), ("MicroTime", 54_796_945_104),
        ("Timestamp", MILLIS), ("MicroTimestamp", MILLIS * 1000),
    ],
    "connect": [
        ("", None), ("Time", 54_796_120), ("Time", 54_796_945), ("Timestamp", MOMENT),
        ("Timestamp", MOMENT),
    ],
    "isostring": [
        ("IsoDate", "2018-06-20Z"), ("IsoTime", "15:13:16.12Z"), ("IsoTime", "15:13:16.945104Z"),
        ("IsoTimestamp", "2018-06-20T15:13:16.12Z"), ("IsoTimestamp", "2018-06-20T15:13:16.12Z"),
    ],
    "microseconds": [
        ("Date", DAYS), ("MicroTime", 54_796_120_000), ("MicroTime", 54_796_945_104),
        ("MicroTimestamp", MILLIS * 1000), ("MicroTimestamp", MILLIS * 1000),
    ],
    "nanoseconds": [
        ("Date", DAYS), ("NanoTime", 54_796_120_000_000), ("NanoTime", 54_796_945_104_000),
        ("NanoTimestamp", MILLIS * 1_000_000), ("NanoTimestamp", MILLIS * 1_000_000),
    ],
}  # fmt: skip
ZONED = [
    ("ZonedTimestamp", "2018-06-20T15:13:16.12Z"), ("ZonedTime", "15:13:16.5Z"), ("Year", 2018),
]  # fmt: skip


def made(of, values, mode, digits=6):
    """The short name of the schema that values have, and the values."""
    name = time_schema(of, mode, digits)
    if not name:
        return "", None
    found = typed_time(pa.array(values, of.type), of, mode, digits)
    named = schema_name(time_field(of, found.type, mode, digits))
    assert named == ("" if pa.types.is_timestamp(found.type) else name)
    return name.removeprefix("io.debezium.time.").removeprefix(CONNECT), found.to_pylist()


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_gives_debeziums_types_and_names(mode):
    found = []
    for of, value in FIELDS.values():
        name, values = made(of, [value, None], mode)
        assert values is None or values[1] is None
        found.append((name, values and values[0]))
    assert found == [*EXPECTED[mode], *ZONED]


def test_what_is_no_date_and_no_time_stays():
    for of in (field("c", pa.string()), field("c", pa.int32()), field("c", pa.string(), "json")):
        assert made(of, [None], "adaptive") == ("", None)


def test_long_and_negative_times_and_moments_before_1970_are_exact():
    times = field("c", pa.string(), "time")
    texts = ["-838:59:59", "24:00:00", "-00:00:00.000001"]
    found = made(times, texts, "adaptive")[1]
    assert found == [-3_020_399_000_000, 86_400_000_000, -1]
    stamps = field("c", STAMP)
    before = datetime.fromisoformat("1969-12-31T23:59:59.000001")
    assert made(stamps, [before], "isostring")[1] == ["1969-12-31T23:59:59.000001Z"]
    assert made(stamps, [before], "microseconds")[1] == [-999_999]
    cut = datetime.fromisoformat("1969-12-31T23:59:59")
    assert made(stamps, [before], "connect")[1] == [cut]
    whole = [datetime.fromisoformat(one) for one in ("2000-01-01", "2000-01-01T10:00")]
    assert made(stamps, whole, "isostring")[1] == ["2000-01-01T00:00:00Z", "2000-01-01T10:00:00Z"]
    assert made(times, ["10:00:00", "00:00:00.100"], "isostring")[1] == ["10:00:00Z", "00:00:00.1Z"]


@pytest.mark.parametrize(
    ("of", "value", "mode"),
    [
        (
            field("c", STAMP, digits=3),
            datetime.fromisoformat("2000-01-01T00:00:00.000001"),
            "adaptive",
        ),
        (field("c", STAMP), datetime.fromisoformat("2300-01-01"), "nanoseconds"),
        (field("c", pa.string(), "time", digits=3), "00:00:00.000001", "adaptive"),
        (field("c", pa.string(), "time"), "700:00:00", "connect"),
    ],
    ids=["cut", "nanoseconds", "time-cut", "long"],
)
def test_a_value_without_a_place_in_its_type_is_an_error_that_names_the_column(of, value, mode):
    with pytest.raises(DataError) as caught:
        made(of, [value], mode)
    assert caught.value.code == "sql.value"
    assert "'c'" in caught.value.message
    assert "isostring" in caught.value.fix


def test_an_empty_batch_has_the_same_types():
    for mode in MODES:
        for of, value in FIELDS.values():
            if time_schema(of, mode, 6):
                empty = typed_time(pa.array([], of.type), of, mode, 6)
                assert empty.type == typed_time(pa.array([value], of.type), of, mode, 6).type
