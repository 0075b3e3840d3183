"""Every type of a column: its field in the index, and its value in the document, exactly."""

# Times without a zone are meant.
# ruff: noqa: DTZ001

import base64
import datetime as dt
import json
import urllib.request
from decimal import Decimal

import pyarrow as pa
import pytest

from penstock_connector.testing import sink_task
from penstock_search import ElasticsearchSink
from support.golden import TABLES, height
from support.search_rows import keys, rejected, rows_of, write

TEXT = {"type": "text", "fields": {"keyword": {"type": "keyword", "ignore_above": 256}}}
UTC = dt.UTC

COLUMNS = [
    ("flag", pa.bool_(), True, "boolean", "true"),
    ("tiny", pa.int8(), -128, "byte", "-128"),
    ("small", pa.int16(), -32768, "short", "-32768"),
    ("whole", pa.int32(), 2**31 - 1, "integer", "2147483647"),
    ("big", pa.int64(), -(2**63), "long", "-9223372036854775808"),
    ("single", pa.float32(), 0.5, "float", "0.5"),
    ("double", pa.float64(), 5e-324, "double", "5e-324"),
    ("exact", pa.decimal128(38, 18), Decimal("12345678901234567890.123456789012345678"), "double",
     "12345678901234567890.123456789012345678"),
    ("day", pa.date32(), dt.date(1, 1, 1), "date", '"0001-01-01"'),
    ("stamp", pa.timestamp("us"), dt.datetime(9999, 12, 31, 23, 59, 59, 999999), "date",
     '"9999-12-31T23:59:59.999999"'),
    ("instant", pa.timestamp("us", "UTC"), dt.datetime(2024, 7, 1, 6, 15, 0, 1, UTC), "date",
     '"2024-07-01T06:15:00.000001Z"'),
    ("nanos", pa.timestamp("ns", "UTC"), 1_700_000_000_123_456_789, "date",
     '"2023-11-14T22:13:20.123456789Z"'),
    ("clock", pa.time64("us"), dt.time(23, 59, 59, 999999), "keyword", '"23:59:59.999999"'),
    ("raw", pa.binary(), b"\x00\xff", "binary", '"AP8="'),
    ("text", pa.string(), 'a"b\\\u202e𝄞', "text", '"a\\"b\\\\\u202e𝄞"'),
    ("list", pa.list_(pa.int32()), [1, None], "integer", "[1,null]"),
    ("struct", pa.struct([("a", pa.int8()), ("t", pa.timestamp("us"))]),
     {"a": 1, "t": dt.datetime(2026, 1, 1)}, None, '{"a":1,"t":"2026-01-01T00:00:00"}'),
    ("map", pa.map_(pa.string(), pa.int32()), [("k", 1)], None, '{"k":1}'),
    ("pairs", pa.map_(pa.int32(), pa.string()), [(1, "x")], None, '[{"key":1,"value":"x"}]'),
]  # fmt: skip


def source(server, topic, id_):
    """A document as it is stored, to the byte."""
    url = f"{server.url}/{topic}/_source/{id_}"
    with urllib.request.urlopen(url, timeout=30) as answer:
        return answer.read().decode()


def test_every_type_has_a_field_and_an_exact_value(elasticsearch, topic):
    columns = {"__key": pa.int64(), **{name: kind for name, kind, *_ in COLUMNS}}
    row = (1, *(value for _, _, value, *_ in COLUMNS))
    nulls = (2, *[None] * len(COLUMNS))
    write(elasticsearch, topic, rows_of(columns, row, nulls))
    wanted = ",".join(f'"{name}":{text}' for name, _, _, _, text in COLUMNS)
    assert source(elasticsearch, topic, 1) == f"{{{wanted}}}"
    assert json.loads(source(elasticsearch, topic, 2)) == dict.fromkeys(c[0] for c in COLUMNS)
    mapping = elasticsearch.request("GET", f"/{topic}/_mapping")[topic]["mappings"]["properties"]
    native = {name: kind for name, _, _, kind, _ in COLUMNS if kind}
    assert {name: mapping[name]["type"] for name in native} == native
    assert mapping["text"] == TEXT
    assert mapping["struct"]["properties"] == {"a": {"type": "byte"}, "t": {"type": "date"}}


@pytest.mark.parametrize("database", TABLES)
def test_the_golden_tables_are_in_documents_as_they_are(elasticsearch, topic, database):
    """What databases give for their types, by the values of the golden tables."""
    columns, values = {"__key": pa.int64()}, []
    for number, column in enumerate(TABLES[database]):
        given = [value for _, value in column.values]
        if any(isinstance(one, float) and one - one != 0 for one in given):
            continue  # NaN and infinities: the next test
        rows = height(TABLES[database])
        padded = pa.array(given + [None] * (rows - len(given)))
        columns[f"c{number}"] = padded.type
        values.append(padded)
    ids = pa.array(range(len(values[0])), pa.int64())
    rows = pa.RecordBatch.from_arrays([ids, *values], names=list(columns))
    write(elasticsearch, topic, rows)
    for id_, row in enumerate(rows.to_pylist()):
        document = json.loads(source(elasticsearch, topic, id_), parse_float=Decimal)
        for name, value in row.items():
            if name != "__key":
                assert as_read(document[name], value) == value


def as_read(found, value):
    """A value of a document as the type that was written."""
    match value:
        case bytes():
            return base64.b64decode(found)
        case dt.datetime() | dt.date():
            return type(value).fromisoformat(found)
        case float():
            return float(found)
        case list():
            return [None if v is None else as_read(f, v) for f, v in zip(found, value, strict=True)]
    return found


def test_numbers_that_documents_have_not_are_rejected(elasticsearch, topic):
    columns = {"id": pa.int64(), "f": pa.float64(), "l": pa.list_(pa.float32())}
    rows = rows_of(columns, (1, float("nan"), None), (2, 1.0, [float("inf")]), (3, 1.5, [None]))
    bad = [(0, "elasticsearch.not_finite"), (1, "elasticsearch.not_finite")]
    assert rejected(elasticsearch, topic, rows, ["id"]) == bad
    assert elasticsearch.documents(topic) == {"3": {"id": 3, "f": 1.5, "l": [None]}}


def test_an_index_gets_the_fields_that_it_lacks_and_keeps_those_that_it_has(elasticsearch, topic):
    fields = {"properties": {"code": {"type": "keyword"}}}
    elasticsearch.request("PUT", f"/{topic}", {"mappings": fields})
    write(elasticsearch, topic, [{"id": 1, "code": "x", "n": 1}], ["id"])
    mapping = elasticsearch.request("GET", f"/{topic}/_mapping")[topic]["mappings"]["properties"]
    assert (mapping["code"]["type"], mapping["n"]["type"]) == ("keyword", "long")


def test_fields_are_the_servers_where_schemas_are_ignored(elasticsearch, topic):
    rows = rows_of({"id": pa.int8(), "m": pa.map_(pa.string(), pa.int8())}, (1, [("a", 2)]))
    more = {"topic_schema_ignore": topic, "compact_map_entries": "false"}
    write(elasticsearch, topic, rows, ["id"], **more)
    mapping = elasticsearch.request("GET", f"/{topic}/_mapping")[topic]["mappings"]["properties"]
    assert mapping["id"]["type"] == "long"
    assert elasticsearch.documents(topic) == {"1": {"id": 1, "m": [{"key": "a", "value": 2}]}}


def test_a_type_that_documents_have_not_is_refused_by_its_column(elasticsearch, topic):
    rows = rows_of({"id": pa.int64(), "took": pa.duration("us")}, (1, dt.timedelta(1)))
    wrong = pytest.raises(ValueError, match="column 'took' is of type duration")
    with sink_task(ElasticsearchSink, keys(elasticsearch)) as task, wrong:
        task.put(rows, txn_id=1, dataset=topic, key_columns=["id"])
