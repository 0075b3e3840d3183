"""A converter of another plugin is called over the wire, as those that are built in are here."""

import json
import threading
from dataclasses import dataclass, replace

import pyarrow as pa
import pytest

from penstock_connector import (
    ConfigError,
    ConnectorError,
    Converter,
    DataError,
    RetriableError,
    Transformed,
    _rows,
    key,
)
from penstock_connector.converter_keys import open_converter
from penstock_connector.plugin_converter import PluginConverter
from penstock_connector.testing import Testbed
from penstock_converters.registry import create_converter
from penstock_values.converter_process import PROCESS, ConverterProcess

ENDING = threading.Event()


@dataclass(frozen=True)
class LinesConfig:
    upper: bool = key(default=False, doc="Write upper case.")


class Lines(Converter[LinesConfig]):
    """JSON objects."""

    name = "lines"
    config_type = LinesConfig

    def decode(self, data):
        rows, failed = [], []
        for at, value in enumerate(data.to_pylist()):
            try:
                rows.append(json.loads(value))
            except ValueError:
                failed.append((at, DataError("converter.not_json", "no")))
        return Transformed(pa.RecordBatch.from_pylist(rows), None, (), failed)

    def encode(self, rows):
        texts = [json.dumps(row, separators=(",", ":")) for row in rows.to_pylist()]
        texts = [text.upper() if self.config.upper else text for text in texts]
        return pa.array([f"{self.dataset}/{text}" if self.key else text for text in texts]).cast(
            pa.binary()
        )


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


class Dictionaries(Converter):
    """Gives texts that are stored once each."""

    name = "dictionaries"

    def decode(self, data):
        return pa.RecordBatch.from_arrays([data.cast(pa.string()).dictionary_encode()], ["text"])


class Failing(Converter):
    """Cannot reach what it needs."""

    name = "failing"

    def decode(self, data):
        raise RetriableError("lines.away", "not now")


@pytest.fixture(scope="module")
def process():
    with Testbed(Lines, Dropping, Hanging, Dictionaries, Failing) as bed:
        yield ConverterProcess(bed.address, "lines", "c", 20.0, credential="a-test")
        ENDING.set()


@pytest.fixture
def opened(process):
    """Open converters of the plugin; they are closed in the end."""
    made = []

    def open_one(*, is_key=False, **changes):
        told = {PROCESS: replace(process, **changes).to_json()}
        made.append(open_converter("value.converter", "lines", told, is_key=is_key))
        assert isinstance(made[-1], PluginConverter)
        return made[-1]

    yield open_one
    for one in made:
        one.close()


@pytest.fixture(params=["built in", "plugin"])
def lines(request, opened):
    """Two converters of the same meaning."""
    if request.param == "plugin":
        return opened()
    return create_converter("json", {"schemas.enable": "false"})


def decoded(found):
    """Values by their row."""
    return {
        row: value
        for run in found.runs
        for row, value in zip(run.rows, run.column.to_pylist(), strict=True)
    }


def encoded(converter, *rows):
    values = pa.array(rows)
    return converter.encode(values, pa.field("value", values.type), "t").column.to_pylist()


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


def test_it_has_its_keys_and_knows_topic_and_side(opened):
    assert encoded(opened(config={"upper": "true"}, is_key=True), {"a": "b"}) == [b't/{"A":"B"}']
    assert encoded(opened(), "b") == [b'{"value":"b"}']


def test_all_may_be_rejected(opened):
    found = opened().decode(pa.array([b"no", None, b"no"]), "t")
    assert decoded(found) == {1: None}
    assert [row for row, _ in found.rejected] == [0, 2]


def test_many_go_in_parts(opened, monkeypatch):
    monkeypatch.setattr("penstock_connector.plugin_converter.Cut", lambda: _rows.Cut(2000))
    data = pa.array([b'{"a":%d}' % n for n in range(3000)])
    found = opened().decode(data, "t")
    assert len(found.runs) > 3
    assert decoded(found) == {n: {"a": n} for n in range(3000)}


def test_a_large_value_comes_in_chunks(opened, monkeypatch):
    monkeypatch.setattr("penstock_connector._frames.MESSAGE_MOST", (64 << 10) + 500)
    text = "x" * 2000
    assert decoded(opened().decode(pa.array([json.dumps({"a": text}).encode()]), "t")) == {
        0: {"a": text}
    }


def test_dictionaries_become_plain_columns(opened):
    found = opened(connector="dictionaries").decode(pa.array([b"x", b"y", b"x"]), "t")
    assert found.runs[0].column.type == pa.struct({"text": pa.string()})
    assert decoded(found) == {0: {"text": "x"}, 1: {"text": "y"}, 2: {"text": "x"}}


def test_a_converter_that_drops_messages_is_refused(opened):
    with pytest.raises(ConnectorError) as caught:
        opened(connector="dropping").decode(pa.array([b"x"]), "t")
    assert caught.value.code == "plugin.protocol.convert_rows"


def test_a_converter_that_hangs_is_left_in_time_and_its_stage_told(opened):
    with pytest.raises(RetriableError) as caught:
        opened(connector="hanging", timeout_s=0.2).decode(pa.array([b"x"]), "t")
    assert "plugin.convert (value.converter)" in str(caught.value)


def test_the_errors_of_a_converter_are_those_of_the_connector(opened):
    with pytest.raises(RetriableError, match="not now") as caught:
        opened(connector="failing").decode(pa.array([b"x"]), "t")
    assert caught.value.code == "lines.away"
    with pytest.raises(ConfigError) as wrong:
        opened(config={"uper": "true"}).decode(pa.array([b"x"]), "t")
    assert wrong.value.config_path == "value.converter.uper"


def test_a_process_that_is_gone_is_retriable(opened):
    with pytest.raises(RetriableError) as caught:
        opened(address="unix:/nowhere/s").decode(pa.array([b"x"]), "t")
    assert caught.value.code == "rpc.unavailable"
