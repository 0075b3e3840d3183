"""`time.precision.mode` with a real server: rows that are read and rows of the log are alike."""

import json

import pytest

from penstock_connector.messages import Converters, MessageEncoder
from penstock_converters.registry import create_converter

COLUMNS = (
    "d date, t3 time(3), t time, ts3 timestamp(3), ts timestamp, i timestamptz, tz timetz, "
    "many timestamp(3)[]"
)
VALUES = (
    "'2018-06-20', '15:13:16.12', '15:13:16.945104', '2018-06-20 15:13:16.12', "
    "'2018-06-20 15:13:16.945104', '2018-06-20 17:13:16.12+02', '15:13:16.5+02', "
    "'{2018-06-20 15:13:16.12,NULL}'"
)
SECONDS = 1_529_507_596
ADAPTIVE = {
    "d": 17702, "t3": 54_796_120, "t": 54_796_945_104, "ts3": SECONDS * 1000 + 120,
    "ts": SECONDS * 1_000_000 + 945_104, "i": "2018-06-20T15:13:16.12Z", "tz": "13:13:16.5Z",
    "many": [SECONDS * 1000 + 120, None],
}  # fmt: skip
NANOS = {
    "t3": 54_796_120_000_000, "t": 54_796_945_104_000, "ts3": SECONDS * 10**9 + 120_000_000,
    "ts": SECONDS * 10**9 + 945_104_000, "many": [SECONDS * 10**9 + 120_000_000, None],
}  # fmt: skip


def config(mode):
    return {"output_format": "debezium", "topic_prefix": "shop", "time_precision_mode": mode}


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("adaptive", ADAPTIVE),
        ("adaptive_time_microseconds", ADAPTIVE | {"t3": 54_796_120_000}),
        ("nanoseconds", ADAPTIVE | NANOS),
    ],
    ids=["adaptive", "adaptive_time", "nanoseconds"],
)
def test_rows_that_are_read_and_changes_have_the_types_of_the_mode(
    database, follow, mode, expected
):
    database.sql(
        f"CREATE TABLE t (id int PRIMARY KEY, {COLUMNS})",
        "ALTER TABLE t REPLICA IDENTITY FULL",
        f"INSERT INTO t VALUES (1, {VALUES})",
    )
    with follow(**config(mode)) as reader:
        reader.settled()
        database.sql(f"INSERT INTO t VALUES (2, {VALUES})", "UPDATE t SET d = NULL WHERE id = 2")
        reader.until(lambda r: len(r.rows) >= 3)
    read, created, updated = [row for _, row in reader.rows]
    assert read["after"] == {"id": 1, **expected}
    assert created["after"] == updated["before"] == {"id": 2, **expected}
    assert updated["after"] == {"id": 2, **expected, "d": None}


def test_a_column_that_gets_more_digits_gets_another_type(database, follow):
    database.sql("CREATE TABLE t (id int PRIMARY KEY, ts timestamp(3))")
    with follow(**config("adaptive")) as reader:
        reader.settled()
        database.sql(
            "INSERT INTO t VALUES (1, '2018-06-20 15:13:16.5')",
            "ALTER TABLE t ALTER ts TYPE timestamp(6)",
            "INSERT INTO t VALUES (2, '2018-06-20 15:13:16.000001')",
        )
        reader.until(lambda r: len(r.rows) >= 2)
    found = [row["after"]["ts"] for _, row in reader.rows]
    assert found == [SECONDS * 1000 + 500, SECONDS * 1_000_000 + 1]


NUMBER = ("int32", None, None)


@pytest.mark.parametrize(
    ("mode", "types", "payload"),
    [
        (
            "adaptive",
            {"d": ("int32", "io.debezium.time.Date", 1), "n": NUMBER,
             "ts": ("int64", "io.debezium.time.Timestamp", 1),
             "t": ("int64", "io.debezium.time.MicroTime", 1)},
            {"d": 17702, "n": 7, "ts": SECONDS * 1000 + 500, "t": 54_796_945_104},
        ),
        (
            "connect",
            {"d": ("int32", "org.apache.kafka.connect.data.Date", 1), "n": NUMBER,
             "ts": ("int64", "org.apache.kafka.connect.data.Timestamp", 1),
             "t": ("int32", "org.apache.kafka.connect.data.Time", 1)},
            {"d": 17702, "n": 7, "ts": SECONDS * 1000 + 500, "t": 54_796_945},
        ),
    ],
    ids=["adaptive", "connect"],
)  # fmt: skip
def test_messages_name_the_types_in_their_schemas(database, follow, mode, types, payload):
    database.sql(
        "CREATE TABLE t (d date, n int, ts timestamp, t time, PRIMARY KEY (d, n))"
        if mode == "connect"
        else "CREATE TABLE t (d date, n int, ts timestamp(3), t time, PRIMARY KEY (d, n))",
        "INSERT INTO t VALUES ('2018-06-20', 7, '2018-06-20 15:13:16.5', '15:13:16.945104')",
    )
    with follow(**config(mode)) as reader:
        reader.settled()
    ((dataset, batch, _),) = [one for one in reader.batches if one[0].endswith(".t")]
    converter = create_converter("json", {"schemas.enable": "true"}, is_key=False)
    encoder = MessageEncoder("kafka", dataset, batch.schema, (), Converters(converter, converter))
    encoded, bad = encoder.encode(batch)
    assert not bad
    (key,), (value,) = (encoded.column(name).to_pylist() for name in ("key", "value"))
    key, value = json.loads(key), json.loads(value)
    assert named(key["schema"]) == {name: types[name] for name in ("d", "n")}
    assert key["payload"] == {"d": 17702, "n": 7}
    after = next(one for one in value["schema"]["fields"] if one["field"] == "after")
    assert named(after) == types
    assert value["payload"]["after"] == payload


def named(schema):
    """The type, name and version of the schema of each field."""
    return {
        one["field"]: (one["type"], one.get("name"), one.get("version")) for one in schema["fields"]
    }
