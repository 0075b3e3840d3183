"""A source reads single rows again: each is a batch of one row, or has its own error."""

import grpc
import pyarrow as pa
import pytest

from penstock.api.connector.v1 import source_service_pb2 as pb
from penstock.api.connector.v1.source_service_pb2_grpc import SourceServiceStub
from penstock_connector import Batch, DataError, RawRow, Sink, Source
from penstock_connector.testing import DEADLINE, RemoteError, Testbed, parse_rows


class Numbers(Source):
    """Reads numbers."""

    name = "numbers"

    @classmethod
    def parse_rows(cls, config, rows):
        for row in rows:
            text = str(row.changes.get("n", row.raw.decode()))
            if text == "stop":
                return
            if text == "none":
                yield Batch()
            elif not text.isdigit():
                yield DataError("numbers.none", f"{text} is no number", fix="Write 1.")
            else:
                values = [{"n": int(text), "file": row.partition["file"]}]
                yield Batch(rows=values, dataset=row.dataset, key_columns=["n"])


class Mute(Source):
    """Cannot."""

    name = "mute"


class Drain(Sink):
    """Is no source."""

    name = "drain"


def row(raw, **changes):
    return RawRow(raw, {"file": "a"}, "d", changes)


def test_each_row_is_a_row_or_has_its_own_error():
    one, two, bad, none = parse_rows(
        Numbers, {}, [row(b"1"), row(b"x", n="2"), row(b"x"), row(b"none")]
    )
    assert one.to_pylist() == [{"n": 1, "file": "a"}]
    assert two.schema == pa.schema([("n", pa.int64()), ("file", pa.string())])
    assert two.column("n").to_pylist() == [2]
    assert (bad.code, bad.fix) == ("numbers.none", "Write 1.")
    assert none.code == "source.parse.count"


def test_a_row_has_its_dataset_and_its_key():
    request = pb.ParseRowsRequest(
        rows=[pb.RawRow(partition_id='{"file":"a"}', dataset="d", raw=b"7")]
    )
    request.target.connector = "numbers"
    with Testbed(Numbers) as bed:
        stub = SourceServiceStub(bed.channel)
        (found,) = stub.ParseRows(request, metadata=bed.metadata, timeout=DEADLINE).rows
    assert (found.schema.dataset, found.schema.key_columns) == ("d", ["n"])
    assert (found.row.seq, found.row.schema_id, found.row.rows) == (1, 1, 1)


def test_another_number_of_results_than_rows_fails_the_call():
    with pytest.raises(RemoteError) as caught:
        parse_rows(Numbers, {}, [row(b"1"), row(b"stop")])
    assert caught.value.code == "source.parse.count"


def test_a_source_that_cannot_is_as_one_without_the_method():
    request = pb.ParseRowsRequest()
    request.target.connector = "mute"
    with Testbed(Mute) as bed, pytest.raises(grpc.RpcError) as caught:
        SourceServiceStub(bed.channel).ParseRows(request, metadata=bed.metadata, timeout=DEADLINE)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_a_sink_reads_no_rows():
    with pytest.raises(RemoteError) as caught:
        parse_rows(Drain, {}, [row(b"1")])
    assert caught.value.code == "plugin.unknown_connector"
