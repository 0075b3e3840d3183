"""A converter of a plugin answers the port of converters, as those that are built in do."""

import json
import threading
from dataclasses import replace

import pyarrow as pa
import pytest

from penstock.model.errors import InternalError, RetriableError
from penstock.model.step import RemoteTransform
from penstock.spark.connector_io import plugin_transform
from penstock.spark.connector_io.plugin_converter import RemoteConverter
from penstock_connector import Converter, DataError, Transformed
from penstock_connector.testing import Testbed
from penstock_converters.registry import create_converter

ENDING = threading.Event()


class Lines(Converter):
    """JSON objects."""

    name = "lines"

    def decode(self, data):
        rows, failed = [], []
        for at, value in enumerate(data.to_pylist()):
            try:
                rows.append(json.loads(value))
            except ValueError:
                failed.append((at, DataError("converter.not_json", "no")))
        return Transformed(pa.RecordBatch.from_pylist(rows), None, (), failed)

    def encode(self, rows):
        texts = [json.dumps(row, separators=(",", ":")).encode() for row in rows.to_pylist()]
        return pa.array(texts, pa.binary())


class Dropping(Converter):
    """Leaves a message out."""

    name = "dropping"

    def decode(self, data):
        return Transformed(pa.RecordBatch.from_pylist([]), None, range(len(data)))


class Hanging(Converter):
    """Never comes back by itself."""

    name = "hanging"

    def decode(self, data):
        ENDING.wait(20)


@pytest.fixture(scope="module")
def remote():
    with Testbed(Lines, Dropping, Hanging) as bed:
        yield RemoteTransform("lines", (), "value.converter", "c", bed.address, "a-test", 20.0)
        ENDING.set()


@pytest.fixture(params=["built in", "plugin"])
def lines(request, remote):
    """Two converters of the same meaning."""
    if request.param == "plugin":
        return RemoteConverter(remote)
    return create_converter("json", {"schemas.enable": "false"})


def decoded(found):
    """Values by their row."""
    return {
        row: value
        for run in found.runs
        for row, value in zip(run.rows, run.column.to_pylist(), strict=True)
    }


def test_values_nulls_and_bad_rows_are_where_they_belong(lines):
    found = lines.decode(pa.array([b'{"a":1}', None, b"no", b'{"a":2}'], pa.binary()), "t")
    assert decoded(found) == {0: {"a": 1}, 1: None, 3: {"a": 2}}
    assert [row for run in found.runs for row in run.rows] == [0, 1, 3]
    assert [(row, error.code) for row, error in found.rejected] == [(2, "converter.not_json")]


def test_bytes_are_where_their_values_were(lines):
    values = pa.array([{"a": 1}, None, {"a": 2}])
    made = lines.encode(values, pa.field("value", values.type), "t")
    assert made.column.to_pylist() == [b'{"a":1}', None, b'{"a":2}']
    assert made.rejected == ()


def test_nothing_is_converted_without_a_call(lines):
    empty = pa.array([None, None], pa.binary())
    assert decoded(lines.decode(empty, "t")) == {0: None, 1: None}


def test_many_go_in_parts(remote, monkeypatch):
    monkeypatch.setattr(plugin_transform, "MAX_ROW_BYTES", 2000)
    data = pa.array([b'{"a":%d}' % n for n in range(3000)])
    found = decoded(RemoteConverter(remote).decode(data, "t"))
    assert found == {n: {"a": n} for n in range(3000)}


def test_a_converter_that_drops_messages_is_refused(remote):
    with pytest.raises(InternalError) as caught:
        RemoteConverter(replace(remote, connector="dropping")).decode(pa.array([b"x"]), "t")
    assert caught.value.code == "plugin.protocol.convert_rows"


def test_a_converter_that_hangs_is_left_in_time_and_its_stage_told(remote):
    slow = replace(remote, connector="hanging", stall_timeout_s=0.2)
    with pytest.raises(RetriableError) as caught:
        RemoteConverter(slow).decode(pa.array([b"x"]), "t")
    assert "plugin.convert (value.converter)" in str(caught.value)
