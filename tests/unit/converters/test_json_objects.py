"""Arrow's parser reads objects as Python's does, or leaves them to it."""

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock_converters.json.objects import ObjectReader
from penstock_converters.registry import create_converter

VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=4),
        st.sampled_from(["2026-01-01", "2026-01-01T00:00:00Z", "1", "\n", "\x00"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=6,
)
MESSAGES = st.lists(
    st.one_of(st.none(), st.dictionaries(st.sampled_from(["a", "b", "c d"]), VALUES, max_size=3)),
    max_size=5,
)


def data_of(messages):
    texts = [None if one is None else json.dumps(one, ensure_ascii=False) for one in messages]
    return pa.array([text and text.encode() for text in texts], pa.binary())


def one_by_one(data, monkeypatch):
    """Decode without Arrow's parser."""
    with monkeypatch.context() as patch:
        patch.setattr(ObjectReader, "read", lambda *_: None)
        return create_converter("json", {"schemas.enable": "false"}).decode(data, "t")


@pytest.fixture(scope="module")
def patch():
    with pytest.MonkeyPatch.context() as context:
        yield context


@given(MESSAGES)
def test_values_and_types_are_those_of_python(patch, messages):
    data = data_of(messages)
    found = ObjectReader().read(data)
    if found is None:
        return
    slow = one_by_one(data, patch)
    assert slow.rejected == ()
    assert found.to_pylist() == slow.runs[0].column.to_pylist()
    assert found.type == slow.runs[0].column.type


@given(MESSAGES, MESSAGES)
def test_columns_of_earlier_messages_change_no_value(patch, before, messages):
    reader, data = ObjectReader(), data_of(messages)
    reader.read(data_of(before))
    found = reader.read(data)
    if found is None:
        return
    slow = one_by_one(data, patch)
    assert slow.rejected == ()
    assert list(map(without_nulls, found.to_pylist())) == list(
        map(without_nulls, slow.runs[0].column.to_pylist())
    )


def without_nulls(value):
    if isinstance(value, dict):
        kept = {name: without_nulls(one) for name, one in value.items() if one is not None}
        return {name: one for name, one in kept.items() if one != {}}
    return [without_nulls(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    "texts",
    [
        ["1"], ["{"], ["{}"], ['{"a": NaN}'], ['{"a": 1}\n{"a": 2}'], ['{\n"a": 1}'],
        ['{"a": 9007199254740993, "b": 0.5}'], ['{"a": 9223372036854775808}'],
        ['{"a": 1, "a": 2}'], ['{"a": 1}', '{"a": "x"}'], ['{"a": 1} {"a": 2}'],
    ],
)  # fmt: skip
def test_what_arrow_would_read_otherwise_is_left(texts):
    assert ObjectReader().read(pa.array([text.encode() for text in texts])) is None


@pytest.mark.parametrize("depth", [100, 400, 600, 5_000, 200_000])
@pytest.mark.parametrize("ends", ['{"a": }', "[]"])
def test_no_depth_ends_the_process(depth, ends):
    begin, end = ends[:-1], ends[-1]  # of one level
    text = f'{{"x": {begin * depth}1{end * depth}}}'
    found = create_converter("json", {"schemas.enable": "false"}).decode(
        pa.array([text.encode()]), "t"
    )
    assert len(found.rejected) == (depth > 900), "what Python cannot read is rejected"


def test_most_messages_are_read_at_once():
    texts = ['{"id": 1, "at": "2026-01-01T00:00:00Z", "n": [null, 1]}', None, '{"id": 2}']
    found = ObjectReader().read(pa.array([text and text.encode() for text in texts]))
    assert found.to_pylist() == [
        {"id": 1, "at": "2026-01-01T00:00:00Z", "n": [None, 1]},
        None,
        {"id": 2, "at": None, "n": None},
    ]
    assert ObjectReader().read(pa.array([b"\xff"])) is None
