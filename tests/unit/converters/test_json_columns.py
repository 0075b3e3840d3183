"""JSON with schemas, many messages at once: what Arrow's parser reads is what the reader of single
values reads, or it is left to it; and texts come back as the values that they were made of.
"""

import base64
import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock_converters.json.columns import ColumnReader, find_envelope
from penstock_converters.registry import create_converter

CONNECT = "org.apache.kafka.connect.data"
BYTES = st.binary(max_size=5).map(lambda data: base64.b64encode(data).decode())
TYPES = [
    ({"type": "boolean"}, st.booleans()),
    ({"type": "int8"}, st.integers(-128, 127)),
    ({"type": "int32"}, st.integers(-(2**31), 2**31 - 1)),
    ({"type": "int64"}, st.integers(-(2**63), 2**63 - 1)),
    ({"type": "float"}, st.floats(width=32, allow_nan=False, allow_infinity=False)),
    ({"type": "double"}, st.floats(allow_nan=False, allow_infinity=False)),
    ({"type": "string"}, st.text(max_size=5)),
    ({"type": "bytes"}, BYTES),
    ({"type": "bytes", "name": f"{CONNECT}.Decimal", "parameters": {"scale": "2"}}, BYTES),
    ({"type": "int32", "name": f"{CONNECT}.Date"}, st.integers(-700_000, 2_900_000)),
    ({"type": "int32", "name": f"{CONNECT}.Time"}, st.integers(-5, 86_400_005)),
    ({"type": "int64", "name": f"{CONNECT}.Timestamp"}, st.integers(-(10**12), 10**13)),
]
ODD = st.one_of(
    st.none(), st.integers(-(2**70), 2**70), st.text(max_size=3), st.booleans(),
    st.sampled_from([1.0, 1e300, 0.1, "NaN", "====", [], {}, "2020-01-01"]),
)  # fmt: skip


@st.composite
def typed(draw, depth=2):
    """A schema, and a strategy of its values in JSON, of which few do not fit."""
    kind = draw(st.sampled_from(["simple"] * 3 + (["array", "struct", "map"] if depth else [])))
    if kind == "simple":
        schema, values = draw(st.sampled_from(TYPES))
    elif kind == "array":
        items, of_items = draw(typed(depth - 1))
        schema, values = {"type": "array", "items": items}, st.lists(of_items, max_size=3)
    elif kind == "map":
        items, of_items = draw(typed(depth - 1))
        keys = {"type": "string", "optional": False}
        schema = {"type": "map", "keys": keys, "values": items}
        values = st.dictionaries(st.text(max_size=2), of_items, max_size=2)
    else:
        schema, values = draw(structs(depth - 1))
    schema = schema | {"optional": draw(st.booleans())}
    if draw(st.integers(0, 9)) == 0 and schema["type"] in ("int32", "string"):
        schema |= {"default": 7 if schema["type"] == "int32" else "x"}
    rare = st.integers(0, 30)
    return schema, st.tuples(values, rare, ODD).map(lambda one: one[0] if one[1] else one[2])


@st.composite
def structs(draw, depth=2):
    parts = [draw(typed(depth)) for _ in range(draw(st.integers(1, 3)))]
    fields = [schema | {"field": f"f{at}"} for at, (schema, _) in enumerate(parts)]
    whole = st.fixed_dictionaries({}, optional={f"f{at}": v for at, (_, v) in enumerate(parts)})
    full = st.fixed_dictionaries({f"f{at}": values for at, (_, values) in enumerate(parts)})
    more = full.map(lambda row: row | {"other": [1, {"x": None}]})
    return {"type": "struct", "optional": False, "fields": fields}, full | full | more | whole


@st.composite
def batches(draw):
    schema, values = draw(structs())
    rows = draw(st.lists(st.one_of(values, values, values), min_size=1, max_size=5))
    spaces = draw(st.sampled_from([",:", ", "]))
    separators = (spaces[0], spaces[1]) if len(spaces) == 2 and spaces[1] == ":" else (", ", ": ")
    return schema, [json.dumps(row, separators=separators, ensure_ascii=False) for row in rows]


def envelopes(schema, payloads):
    text = json.dumps(schema)
    messages = [f'{{"schema": {text}, "payload": {one}}}'.encode() for one in payloads]
    return pa.array(messages, pa.binary())


def shown(column):
    """Values as a text: NaN is equal to nothing, and Python has not all dates."""
    try:
        return str(column.to_pylist())
    except OverflowError:
        return column.to_string()


def compared(data, config):
    found = create_converter("json", config).decode(data, "t")
    return (
        [(list(run.rows), run.field, shown(run.column)) for run in found.runs],
        [(row, problem.code) for row, problem in found.rejected],
    )


def outcome(data, config):
    found = create_converter("json", config).decode(data, "t")
    return (
        [(list(run.rows), run.field, run.column.to_pylist()) for run in found.runs],
        [(row, problem.code) for row, problem in found.rejected],
    )


@pytest.fixture(scope="module")
def one_by_one():
    """Decode without Arrow's parser."""

    def decode(data, config):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ColumnReader, "read", lambda *_: None)
            return compared(data, config)

    return decode


@given(batches(), st.sampled_from(["true", "false"]))
def test_values_and_faults_are_those_of_the_reader_of_single_values(one_by_one, batch, defaults):
    schema, payloads = batch
    config = {"replace.null.with.default": defaults}
    data = envelopes(schema, payloads)
    assert compared(data, config) == one_by_one(data, config)
    content = config | {"schema.content": json.dumps(schema)}
    data = pa.array([one.encode() for one in payloads], pa.binary())
    assert compared(data, content) == one_by_one(data, content)


@given(batches())
def test_what_is_read_is_written_as_it_was(batch):
    schema, payloads = batch
    made = create_converter("json", {})
    for run in made.decode(envelopes(schema, payloads), "t").runs:
        written = made.encode(run.column, run.field, "t")
        assert written.rejected == ()
        (again,) = made.decode(written.column, "t").runs
        assert again.column.type == run.column.type
        assert shown(again.column) == shown(run.column)


@pytest.mark.parametrize(
    ("text", "begin"),
    [
        ('{"schema":{"type":"int32"},"payload":5}', '{"schema":{"type":"int32"},"payload":'),
        ('{"schema": {"payload": 1}, "payload" : {"payload": 2}}',
         '{"schema": {"payload": 1}, "payload" :'),
        ('{"payload":5,"schema":{"type":"int32"}}', None),
        ('{"schema":1,"payloads":2}', None), ('{"schema":"payload\\":"}', None), ("", None),
        ('{"schema":1,"x":2,"payload":3}', None), ("[" * 9999 + '"payload":', None),
    ],
)  # fmt: skip
def test_what_stands_before_a_payload_is_found(text, begin):
    assert find_envelope(text.encode()) == (begin and begin.encode())


def test_messages_that_look_like_others_of_their_schema_are_still_no_json():
    schema = {
        "type": "struct", "optional": False,
        "fields": [{"type": "int32", "optional": True, "field": "a"}],
    }  # fmt: skip
    good = '{"a": 1}'
    bad = ['{"a": 1}, "b": {}', '{"a": 1}}{"a": 2}', '{"a": 1} {"a": 2}', '{"a": 1', "{'a': 1}", ""]
    for one in bad:
        runs, rejected = outcome(envelopes(schema, [good, one, good]), {})
        assert [code for _, code in rejected] in (["converter.not_json"], ["converter.value"])
        assert [row for run in runs for row in run[0]] == [0, 2]


def test_messages_of_several_schemas_are_read_at_once_and_stay_in_order():
    def schema(name):
        fields = [{"type": "string", "optional": False, "field": name}]
        return {"type": "struct", "optional": False, "fields": fields}

    parts = [
        message
        for at in range(3)
        for name in "ab"
        for message in envelopes(schema(name), [json.dumps({name: f"{at}"})]).to_pylist()
    ]
    runs, rejected = outcome(pa.array([*parts, None]), {})
    assert rejected == []
    assert [(rows, values) for rows, _, values in runs] == [
        *(([2 * at + n], [{"ab"[n]: f"{at}"}]) for at in range(3) for n in range(2) if at + n < 3),
        ([5, 6], [{"b": "2"}, None]),
    ]
