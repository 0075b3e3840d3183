"""Transforms and converters over the wire: what comes out, what is refused, what is kept."""

import json
import re
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.api.connector.v1 import connector_service_pb2 as connector_pb
from penstock.api.connector.v1 import plugin_service_pb2 as plugin_pb
from penstock.api.connector.v1 import transform_service_pb2 as pb
from penstock.api.connector.v1.plugin_service_pb2_grpc import PluginServiceStub
from penstock.api.connector.v1.transform_service_pb2_grpc import TransformServiceStub
from penstock.api.record.v1 import record_pb2 as record_pb
from penstock_connector import (
    Converter,
    DataError,
    RetriableError,
    Transform,
    Transformed,
    key,
)
from penstock_connector._errors import as_connector_error
from penstock_connector._seats import _IDLE_MOST, Seats
from penstock_connector.testing import (
    RemoteError,
    Testbed,
    converter_task,
    transform_task,
    validate,
)


@dataclass(frozen=True)
class DoubleConfig:
    """Keys."""

    field: str = key(doc="Column to double.", required=True)


class Double(Transform[DoubleConfig]):
    """Doubles a column."""

    name = "double"
    made = 0
    closed = 0

    def connect(self):
        Double.made += 1

    def schema(self, schema):
        return schema.append(pa.field("twice", pa.int64()))

    def apply(self, rows):
        return rows.append_column("twice", pc.multiply(rows[self.config.field], 2))

    def close(self):
        Double.closed += 1


class Odd(Transform):
    """Keeps even numbers, refuses negative ones, drops odd ones."""

    name = "odd"

    def apply(self, rows):
        numbers = rows["n"].to_pylist()
        failed = [(at, DataError("odd.negative", "no")) for at, n in enumerate(numbers) if n < 0]
        filtered = [at for at, n in enumerate(numbers) if n >= 0 and n % 2]
        kept = [at for at, n in enumerate(numbers) if n >= 0 and not n % 2]
        return Transformed(rows.take(pa.array(kept, pa.int32())), None, filtered, failed)


class Twice(Transform):
    """Gives every row twice."""

    name = "twice"

    def apply(self, rows):
        order = [at for at in range(rows.num_rows) for _ in range(2)]
        return Transformed(rows.take(pa.array(order)), order)


class Encoded(Transform):
    """Gives each text once, and indices of them."""

    name = "encoded"

    def schema(self, schema):
        return pa.schema([("text", pa.dictionary(pa.int32(), pa.string()))])

    def apply(self, rows):
        return pa.RecordBatch.from_arrays([rows["text"].dictionary_encode()], ["text"])


def defect(result=None, error=None):
    """A transform that returns or raises what it should not."""

    class Defect(Transform):
        name = "defect"

        def apply(self, rows):
            if error is not None:
                raise error
            return result(rows)

    return Defect


def test_rows_come_out_in_the_schema_that_was_told():
    with transform_task(Double, {"field": "n"}) as task:
        assert task.schema(pa.schema([("n", pa.int64())])).names == ["n", "twice"]
        result = task.apply([{"n": 1}, {"n": 5}])
    assert result.rows.to_pylist() == [{"n": 1, "twice": 2}, {"n": 5, "twice": 10}]
    assert result.input_rows == ()


def test_dictionaries_become_plain_columns():
    with transform_task(Encoded, {}) as task:
        assert task.schema(pa.schema([("text", pa.string())])).types == [pa.string()]
        rows = [{"text": "a"}, {"text": "b"}, {"text": "a"}]
        assert task.apply(rows).rows.to_pylist() == rows


def test_rows_that_go_away_are_named():
    with transform_task(Odd, {}) as task:
        result = task.apply([{"n": n} for n in (2, 3, -1, 4)])
        assert task.apply([{"n": 1}]).rows.num_rows == 0
    assert result.rows.to_pylist() == [{"n": 2}, {"n": 4}]
    assert (result.input_rows, result.filtered) == ((0, 3), (1,))
    assert result.failed == {2: "odd.negative"}


def test_a_row_may_become_several():
    with transform_task(Twice, {}) as task:
        result = task.apply([{"n": 1}, {"n": 2}])
    assert [row["n"] for row in result.rows.to_pylist()] == [1, 1, 2, 2]
    assert result.input_rows == (0, 0, 1, 1)


def test_a_large_answer_comes_in_chunks():
    class Large(Transform):
        name = "large"

        def schema(self, schema):
            return pa.schema([("text", pa.large_string())])

        def apply(self, rows):
            return pa.record_batch([pa.array(["x" * (70 << 20)], pa.large_string())], ["text"])

    with transform_task(Large, {}) as task:
        assert len(task.apply([{"n": 1}]).rows["text"][0].as_py()) == 70 << 20


@pytest.mark.parametrize(
    ("result", "code"),
    [
        (lambda rows: rows.slice(1), "transform.rows"),
        (lambda rows: None, "transform.rows"),
        (lambda rows: rows.rename_columns(["m"]), "transform.schema"),
        (lambda rows: Transformed(rows, [0, 0]), "transform.rows"),
        (lambda rows: Transformed(rows, [0, 1], filtered=[1]), "transform.rows"),
        (lambda rows: Transformed(rows.slice(1), [5]), "transform.rows"),
    ],
)
def test_an_author_that_loses_rows_is_told(result, code):
    with transform_task(defect(result), {}) as task, pytest.raises(RemoteError) as caught:
        task.apply([{"n": 1}, {"n": 2}])
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RetriableError("api.busy", "later"), "api.busy"),
        (ZeroDivisionError(), "connector.defect"),
        (TimeoutError(), "connector.unreachable"),
    ],
)
def test_an_error_keeps_its_class_and_code(error, code):
    with transform_task(defect(error=error), {}) as task, pytest.raises(RemoteError) as caught:
        task.apply([{"n": 1}])
    assert caught.value.code == code


def test_the_trace_of_a_defect_ends_with_the_frame_that_raised():
    def fail(depth):
        if depth:
            fail(depth - 1)
        raise ZeroDivisionError("x" * 5000)

    with pytest.raises(ZeroDivisionError) as caught:
        fail(50)
    long = as_connector_error(caught.value, "apply")
    with pytest.raises(ZeroDivisionError) as caught:
        fail(0)
    short = as_connector_error(caught.value, "apply")
    assert short.detail.startswith("Traceback")
    assert short.detail.splitlines()[-1].startswith("ZeroDivisionError: xxx")
    assert re.search(r'test_transform.py", line \d+, in fail', short.detail)
    assert len(long.detail) <= 1400
    assert long.detail.splitlines()[-2].strip() == 'raise ZeroDivisionError("x" * 5000)'


def test_an_object_is_kept_for_the_next_batch_and_closed_at_the_end():
    Double.made = Double.closed = 0
    with Testbed(Double) as bed:
        for field in ("n", "n", "m"):
            with transform_task(Double, {"field": field}, bed=bed) as task:
                task.apply([{"n": 1, "m": 1}])
        assert (Double.made, Double.closed) == (2, 0)
    assert Double.closed == 2


def test_an_object_that_failed_is_not_used_again():
    Double.made = Double.closed = 0
    with Testbed(Double) as bed, transform_task(Double, {"field": "n"}, bed=bed) as task:
        with pytest.raises(RemoteError):
            task.apply([{"other": 1}])
        assert Double.closed == 1
        task.apply([{"n": 1}])
    assert Double.made == 2


def test_free_objects_are_bounded():
    seats = Seats()
    closed = []

    class One(Transform):
        def close(self):
            closed.append(self)

    for number in range(_IDLE_MOST + 3):
        seats.give(b"%d" % number, One())
    assert len(closed) == 3
    seats.close()
    assert len(closed) == _IDLE_MOST + 3


def test_it_is_described_and_its_configuration_checked():
    with Testbed(Double, Odd) as bed:
        answer = PluginServiceStub(bed.channel).Describe(
            plugin_pb.DescribeRequest(), metadata=bed.metadata
        )
    assert {spec.name: spec.kind for spec in answer.connectors} == {
        "double": plugin_pb.KIND_TRANSFORM,
        "odd": plugin_pb.KIND_TRANSFORM,
    }
    assert validate(Double, {}) == ["config.missing"]
    with transform_task(Double, {"feild": "n"}) as task, pytest.raises(RemoteError) as caught:
        task.apply([{"n": 1}])
    assert caught.value.code == "config.unknown_key"


@pytest.mark.parametrize(
    "frames",
    [
        [pb.TransformRequest(batch=record_pb.Batch(seq=1))],
        [pb.TransformRequest(open=pb.TransformOpen(target=connector_pb.Target(connector="x")))],
        [],
    ],
    ids=["not opened", "another", "nothing"],
)
def test_a_caller_that_breaks_the_protocol_is_refused(frames):
    import grpc

    with Testbed(Double) as bed, pytest.raises(grpc.RpcError):
        list(TransformServiceStub(bed.channel).Transform(iter(frames), metadata=bed.metadata))


class Lines(Converter):
    """JSON objects."""

    name = "lines"

    def decode(self, data):
        rows, failed = [], []
        for at, value in enumerate(data.to_pylist()):
            try:
                rows.append(json.loads(value))
            except ValueError:
                failed.append((at, DataError("lines.not_json", "no")))
        return Transformed(pa.RecordBatch.from_pylist(rows), None, (), failed)

    def encode(self, rows):
        head = f"{self.dataset}{'/key' if self.key else ''}:"
        return pa.array([(head + json.dumps(row)).encode() for row in rows.to_pylist()])


def test_a_converter_reads_and_writes():
    with converter_task(Lines, {}, dataset="t", key=True) as task:
        decoded = task.decode([b'{"a": 1}', b"no", b'{"a": 2}'])
        encoded = task.encode([{"a": 1}])
    assert decoded.rows.to_pylist() == [{"a": 1}, {"a": 2}]
    assert (decoded.input_rows, decoded.failed) == ((0, 2), {1: "lines.not_json"})
    assert encoded.rows.column(0).to_pylist() == [b't/key:{"a": 1}']
