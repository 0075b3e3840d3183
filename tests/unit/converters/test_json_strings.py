"""JSON texts become strings at once, and mean what Python's parser says."""

import json

import pyarrow as pa
import pytest

from penstock_converters.registry import create_converter

TEXTS = [
    b'"plain"', b'""', '"über €"'.encode(), b'"with \\"quotes\\""', b'"\\u00fc\\n"', b' "spaces" ',
    b'"' + b"x" * 1000 + b'"', b'"\x7f"',
]  # fmt: skip
NO_TEXTS = [
    b'"\\ud800"', b'"open', b'"a"b"', b'"line\nbreak"', b'"\xff"', b'"a" "b"', b"'a'", b"", b'"',
]  # fmt: skip


def envelope(payload, end=b"}"):
    return b'{"schema":{"type":"string","optional":true},"payload":' + payload + end


def decoded(messages, *, schemas=False):
    converter = create_converter("json", {"schemas.enable": str(schemas).lower()})
    found = converter.decode(pa.array(messages, pa.binary()), "t")
    values = {}
    for run in found.runs:
        values.update(zip(run.rows, run.column.to_pylist(), strict=True))
    return values, [index for index, _ in found.rejected]


@pytest.mark.parametrize("schemas", [False, True])
def test_texts_are_what_they_mean_in_their_order(schemas):
    wrap = envelope if schemas else bytes
    messages = [*map(wrap, TEXTS), None, *map(wrap, reversed(TEXTS))]
    values, rejected = decoded(messages, schemas=schemas)
    means = [json.loads(text) for text in TEXTS]
    assert [values[at] for at in range(len(messages))] == [*means, None, *reversed(means)]
    assert rejected == []


@pytest.mark.parametrize("wrong", NO_TEXTS)
@pytest.mark.parametrize("schemas", [False, True])
def test_what_is_no_text_is_rejected_and_the_others_are_read(wrong, schemas):
    wrap = envelope if schemas else bytes
    values, rejected = decoded([wrap(b'"a"'), wrap(wrong), wrap(b'"b"')], schemas=schemas)
    assert (values, rejected) == ({0: "a", 2: "b"}, [1])


@pytest.mark.parametrize("end", [b"]", b"", b"}}", b'"}'])
def test_an_envelope_that_does_not_end_is_none(end):
    for payload in (b'"a"', b'"b"'):
        values, rejected = decoded([envelope(b'"x"'), envelope(payload, end)], schemas=True)
        assert (values, rejected) == ({0: "x"}, [1])


def test_an_object_in_an_envelope_that_ends_otherwise_is_none():
    schema = b'{"type":"struct","fields":[{"field":"a","type":"int32"}]}'
    begin = b'{"schema":' + schema + b',"payload":{"a":1}'
    values, rejected = decoded([begin + b"}", begin + b"]"], schemas=True)
    assert (values, rejected) == ({0: {"a": 1}}, [1])


def test_texts_among_other_values_are_as_before():
    values, rejected = decoded([b'"a"', b"1", b'"b"'])
    assert (values, rejected) == ({0: "a", 2: "b"}, [1])
    values, rejected = decoded([b"1", b'"a"'])
    assert (values, rejected) == ({0: 1}, [1])
    assert decoded([None, None])[0] == {0: None, 1: None}
