"""JSON as Kafka's JsonConverter writes and reads it: every expected text is what its code and its
own tests (`JsonConverterTest`) say.
"""

import base64
import json
from datetime import UTC, date, datetime, time
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock_converters.connect_schema import to_arrow_field, to_connect_schema
from penstock_converters.registry import create_converter

CLASS = "org.apache.kafka.connect.json.JsonConverter"
D = "org.apache.kafka.connect.data."


def envelope(schema, payload):
    return f'{{"schema":{schema},"payload":{payload}}}'


# schema as Kafka writes it · payload · value in a column
BOTH_WAYS = {
    "boolean": ('{"type":"boolean","optional":false}', "true", True),
    "int8": ('{"type":"int8","optional":false}', "12", 12),
    "int16": ('{"type":"int16","optional":false}', "-12", -12),
    "int32": ('{"type":"int32","optional":false}', "12", 12),
    "int64": ('{"type":"int64","optional":false}', "4398046511104", 4398046511104),
    "float": ('{"type":"float","optional":false}', "12.34", pytest.approx(12.34)),
    "double": ('{"type":"double","optional":false}', "1.0E10", 1e10),
    "bytes": ('{"type":"bytes","optional":false}', '"dGVzdC1zdHJpbmc="', b"test-string"),
    "string": ('{"type":"string","optional":false}', '"a\\"\\\\\\n\\u001FÄ/"', 'a"\\\n\x1fÄ/'),
    "null": ('{"type":"string","optional":true}', "null", None),
    "array": (
        '{"type":"array","items":{"type":"int32","optional":false},"optional":false}',
        "[1,2,3]", [1, 2, 3],
    ),
    "map of texts": (
        ('{"type":"map","keys":{"type":"string","optional":false},'
        '"values":{"type":"int32","optional":true},"optional":false}'),
        '{"key1":12,"key2":null}', [("key1", 12), ("key2", None)],
    ),
    "map of numbers": (
        ('{"type":"map","keys":{"type":"int32","optional":false},'
        '"values":{"type":"int32","optional":false},"optional":false}'),
        "[[1,12],[2,15]]", [(1, 12), (2, 15)],
    ),
    "struct": (
        ('{"type":"struct","fields":[{"type":"boolean","optional":false,"field":"field1"},'
        '{"type":"string","optional":true,"field":"field2"}],"optional":false,'
        '"name":"com.acme.Row","version":2,"doc":"a row"}'),
        '{"field1":true,"field2":null}', {"field1": True, "field2": None},
    ),
    "decimal": (
        (f'{{"type":"bytes","optional":false,"name":"{D}Decimal","version":1,'
        '"parameters":{"scale":"2"}}'), '"AJw="', Decimal("1.56"),
    ),
    "negative decimal": (
        (f'{{"type":"bytes","optional":false,"name":"{D}Decimal","version":1,'
        '"parameters":{"scale":"1"}}'), '"gA=="', Decimal("-12.8"),
    ),
    "date": (f'{{"type":"int32","optional":false,"name":"{D}Date","version":1}}',
             "10000", date(1997, 5, 19)),
    "time": (f'{{"type":"int32","optional":false,"name":"{D}Time","version":1}}',
             "14400000", time(4, 0)),
    "timestamp": (f'{{"type":"int64","optional":false,"name":"{D}Timestamp","version":1}}',
                  "4000000000", datetime(1970, 2, 16, 7, 6, 40, tzinfo=UTC)),
    "parameters": (
        '{"type":"int32","optional":false,"name":"n","parameters":{"a":"b"}}', "5", 5,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BOTH_WAYS)
def test_a_message_is_read_and_written_as_kafka_does(case):
    schema, payload, value = BOTH_WAYS[case]
    text = envelope(schema, payload)
    made = create_converter(CLASS, {})
    decoded = made.decode(pa.array([text.encode()], pa.binary()), "t")
    assert decoded.rejected == ()
    (run,) = decoded.runs
    assert run.column.to_pylist() == [value]
    if value is None:
        return  # a null row is a message without bytes
    assert made.encode(run.column, run.field, "t").column.to_pylist() == [text.encode()]
    plain = create_converter("json", {"schemas.enable": "false"}).encode(run.column, run.field, "t")
    assert plain.column.to_pylist() == [payload.encode()]


@pytest.mark.parametrize("case", BOTH_WAYS)
def test_a_schema_survives_arrow(case):
    schema = json.loads(BOTH_WAYS[case][0])
    assert to_connect_schema(to_arrow_field(schema)) == schema


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e7, "1.0E7"), (9999999.0, "9999999.0"), (0.001, "0.001"), (0.00099, "9.9E-4"),
        (0.0, "0.0"), (-0.0, "-0.0"), (-1.5e-7, "-1.5E-7"), (1.7976931348623157e308, None),
        (100.0, "100.0"), (float("nan"), '"NaN"'), (float("-inf"), '"-Infinity"'),
    ],
)  # fmt: skip
def test_numbers_are_written_as_java_writes_them(value, text):
    column = pa.array([value], pa.float64())
    made = create_converter("json", {"schemas.enable": "false"}).encode(
        column, pa.field("v", column.type), "t"
    )
    assert made.column.to_pylist() == [(text or "1.7976931348623157E308").encode()]


def test_singles_have_the_digits_of_singles():
    column = pa.array([0.1, 3.4028235e38, 1.17549435e-38, 16777216.0], pa.float32())
    made = create_converter("json", {"schemas.enable": "false"}).encode(
        column, pa.field("v", column.type), "t"
    )
    assert made.column.to_pylist() == [b"0.1", b"3.4028235E38", b"1.1754944E-38", b"1.6777216E7"]


DECIMAL = {"type": "bytes", "name": D + "Decimal", "version": 1, "parameters": {"scale": "2"}}


@pytest.mark.parametrize("payload", [1.56, "AJw="])
def test_decimals_are_read_in_both_forms_and_written_as_asked(payload):
    text = json.dumps({"schema": DECIMAL, "payload": payload}).encode()
    numeric = create_converter("json", {"decimal.format": "numeric"})
    (run,) = numeric.decode(pa.array([text]), "t").runs
    assert run.column.to_pylist() == [Decimal("1.56")]
    assert numeric.encode(run.column, run.field, "t").column[0].as_py().endswith(b'"payload":1.56}')


def test_a_decimal_number_keeps_digits_that_no_double_has():
    text = b'{"schema": %s, "payload": 12345678901234567890.12}' % json.dumps(DECIMAL).encode()
    (run,) = create_converter("json", {}).decode(pa.array([text]), "t").runs
    assert run.column.to_pylist() == [Decimal("12345678901234567890.12")]


DEFAULTED = {
    "type": "struct",
    "fields": [{"type": "string", "optional": True, "default": "foo", "field": "f1"}],
}


@pytest.mark.parametrize(("key", "value"), [("true", "foo"), ("false", None)])
@pytest.mark.parametrize("payload", [{}, {"f1": None}])
def test_a_null_becomes_its_default_or_stays(key, value, payload):
    made = create_converter("json", {"replace.null.with.default": key})
    text = json.dumps({"schema": DEFAULTED, "payload": payload}).encode()
    (run,) = made.decode(pa.array([text]), "t").runs
    assert run.column.to_pylist() == [{"f1": value}]
    nulls = pa.array([{"f1": None}], run.field.type)
    (written,) = made.encode(nulls, run.field, "t").column.to_pylist()
    assert json.loads(written)["payload"] == {"f1": value}


def test_messages_without_schema_are_read_by_the_one_that_is_given():
    content = {"type": "struct", "fields": [{"type": "int32", "field": "a"}]}
    made = create_converter("json", {"schema.content": json.dumps(content)})
    decoded = made.decode(pa.array([b'{"a": 5}', b'{"a": "x"}']), "t")
    assert decoded.runs[0].field.type == pa.struct([pa.field("a", pa.int32(), nullable=False)])
    assert decoded.runs[0].column.to_pylist() == [{"a": 5}]
    assert [(row, error.code) for row, error in decoded.rejected] == [(1, "converter.value")]


def test_without_schemas_values_are_what_they_are():
    made = create_converter("json", {"schemas.enable": "false"})
    data = [b'{"a": 1, "b": [1.5, null], "c": {"d": "x"}}', None, b'{"a": 2, "e": true}']
    (run,) = made.decode(pa.array(data, pa.binary()), "t").runs
    assert list(run.rows) == [0, 1, 2]
    assert run.column.to_pylist() == [
        {"a": 1, "b": [1.5, None], "c": {"d": "x"}, "e": None},
        None,
        {"a": 2, "b": None, "c": None, "e": True},
    ]


def test_without_schemas_a_value_of_another_type_is_bad_and_its_neighbours_pass():
    data = [b'{"a": 1}', b'{"a": "x"}', b"[1]", b'{"a": 2.5}', b"%d" % 2**70, b"no", b""]
    decoded = create_converter("json", {"schemas.enable": "false"}).decode(pa.array(data), "t")
    (run,) = decoded.runs
    assert run.rows == [0, 3]
    assert run.column.to_pylist() == [{"a": 1.0}, {"a": 2.5}]
    assert [(row, error.code) for row, error in decoded.rejected] == [
        (1, "converter.mixed_types"), (2, "converter.mixed_types"), (4, "converter.mixed_types"),
        (5, "converter.not_json"), (6, "converter.not_json"),
    ]  # fmt: skip


def test_rows_of_several_schemas_are_runs_in_their_order():
    one, two = ('{"type":"int32"}', '{"type":"string"}')
    texts = [envelope(one, "1"), envelope(one, "2"), None, envelope(two, '"x"'), envelope(one, "3")]
    data = pa.array([t and t.encode() for t in texts], pa.binary())
    decoded = create_converter("json", {"schemas.cache.size": "1"}).decode(data, "t")
    assert [(list(r.rows), r.column.to_pylist()) for r in decoded.runs] == [
        ([0, 1, 2], [1, 2, None]), ([3], ["x"]), ([4], [3]),
    ]  # fmt: skip


INT8 = '{"type":"int8"}'


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('{"a": 1}', "converter.value"),
        ('{"schema": null, "payload": 1}', "converter.value"),
        ('{"schema": {"type": "int8"}, "payload": 1, "more": 2}', "converter.value"),
        ('{"schema": {"type": "what"}, "payload": 1}', "converter.schema"),
        ('{"schema": {"type": "array"}, "payload": []}', "converter.schema"),
        ('{"schema": {"type": "struct", "fields": [{"type": "int8"}]}, "payload": {}}',
         "converter.schema"),
        (envelope(INT8, "300"), "converter.value"),
        (envelope(INT8, "1.5"), "converter.value"),
        (envelope(INT8, '"x"'), "converter.value"),
        (envelope(INT8, "true"), "converter.value"),
        (envelope(INT8, "null"), "converter.value"),
        (envelope('{"type":"boolean"}', "0"), "converter.value"),
        (envelope('{"type":"string"}', "5"), "converter.value"),
        (envelope('{"type":"bytes"}', '"%"'), "converter.value"),
        (envelope('{"type":"double"}', '"x"'), "converter.value"),
        (envelope(json.dumps(DECIMAL), "1.234"), "converter.value"),
        (envelope(json.dumps(DECIMAL), "1e-77"), "converter.value"),
        (envelope(json.dumps(DECIMAL), "1e-999999999"), "converter.value"),
        (envelope(json.dumps(DECIMAL), "1e99999999999999999999"), "converter.value"),
        (envelope(json.dumps(DECIMAL), f'"{"f" * 400}"'), "converter.value"),
        (envelope(INT8, "1e999999999999"), "converter.value"),
        (envelope(INT8, "1e-999999999999"), "converter.value"),
        (envelope('{"type":"int8","name":["n"]}', "7"), "converter.schema"),
        (envelope(json.dumps(DECIMAL).replace('"2"', "1e999"), "1"), "converter.schema"),
        ("{", "converter.not_json"),
        ("NaN", "converter.value"),
        ("[" * 100_000, "converter.not_json"),
    ],
)  # fmt: skip
def test_what_is_not_as_its_schema_says_is_a_bad_row(text, code):
    good = envelope(INT8, "7").encode()
    decoded = create_converter("json", {}).decode(pa.array([good, text.encode(), good]), "t")
    assert [(row, error.code) for row, error in decoded.rejected] == [(1, code)]
    assert [value for run in decoded.runs for value in run.column.to_pylist()] == [7, 7]


@pytest.mark.parametrize("name", ["Decimal", "Date", "Time", "Timestamp"])
@pytest.mark.parametrize("kind", ["string", "bytes", "struct"])
def test_a_name_makes_no_other_type_of_a_plain_one(kind, name):
    """Kafka Connect's names mean something with their own type alone."""
    if (kind, name) == ("bytes", "Decimal"):
        return
    payload = '{"a":5}' if kind == "struct" else '"AAE="'
    fields = ',"fields":[{"type":"int8","optional":false,"field":"a"}]' if kind == "struct" else ""
    text = envelope(f'{{"type":"{kind}"{fields},"optional":false,"name":"{D}{name}"}}', payload)
    made = create_converter("json", {})
    (run,) = made.decode(pa.array([text.encode()]), "t").runs
    assert made.encode(run.column, run.field, "t").column.to_pylist() == [text.encode()]


@given(st.integers(1 - 10**38, 10**38 - 1), st.integers(0, 38), st.booleans())
def test_a_decimal_keeps_all_of_its_38_digits(whole, scale, numeric):
    value = Decimal((whole < 0, tuple(map(int, str(abs(whole)))), -scale))
    column = pa.array([value], pa.decimal128(38, scale))
    made = create_converter("json", {"decimal.format": "numeric" if numeric else "base64"})
    encoded = made.encode(column, pa.field("value", column.type), "t").column
    (run,) = made.decode(encoded, "t").runs
    assert run.column == column
    if not numeric:
        payload = base64.b64decode(json.loads(encoded[0].as_py())["payload"])
        assert int.from_bytes(payload, "big", signed=True) == whole


def test_microseconds_are_not_cut_off_without_a_word():
    moments = [datetime(2026, 1, 1, microsecond=m, tzinfo=UTC) for m in (5000, 5)]
    column = pa.array(moments)
    made = create_converter("json", {"schemas.enable": "false"}).encode(
        column, pa.field("t", column.type), "t"
    )
    assert made.column.to_pylist() == [b"1767225600005", None]
    assert [(row, error.code) for row, error in made.rejected] == [(1, "converter.not_exact")]


def test_columns_of_other_types_become_the_next_larger_of_kafkas():
    kinds = {
        pa.uint8(): "int16", pa.uint32(): "int64", pa.large_string(): "string",
        pa.binary(4): "bytes", pa.float16(): "float", pa.uint64(): "bytes",
    }  # fmt: skip
    assert {k: to_connect_schema(pa.field("v", k))["type"] for k in kinds} == kinds
    made = create_converter("json", {}).encode(
        pa.array([1], pa.duration("s")), pa.field("v", pa.duration("s")), "t"
    )
    assert [error.code for _, error in made.rejected] == ["converter.type"]
