"""Frames that would become too large are refused before anything of them is decoded."""

import random
import resource
from contextlib import suppress

import grpc
import pyarrow as pa
import pytest

from penstock.model.errors import PenstockError
from penstock.spark.connector_io import frames
from penstock.spark.connector_io.source_reader import read_rows
from penstock_values import frame_bounds
from penstock_values.frame_bounds import (
    FrameTooLargeError,
    MalformedFrameError,
    check_frame,
)
from tests.unit.spark.tiny_plugin import TinyPlugin, frame

SMALL = pa.RecordBatch.from_arrays(
    [pa.array(["x" * 100] * 1000), pa.array(range(1000)), pa.nulls(1000)], names=list("abc")
)


def message(batch: pa.RecordBatch, compression: str | None = None) -> bytes:
    """The record batch message, with the dictionaries before it, and no schema."""
    out = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(out, batch.schema, options=options) as stream:
        stream.write_batch(batch)
    return out.getvalue().to_pybytes()[batch.schema.serialize().size : -8]


def zeros(mebibytes: int) -> pa.RecordBatch:
    """Rows that compress to next to nothing."""
    return pa.RecordBatch.from_arrays(
        [pa.array([bytes(1 << 20)] * mebibytes, pa.large_binary())], names=["z"]
    )


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_what_a_frame_declares_is_what_it_becomes(compression):
    data = message(SMALL, compression)
    found = frame_bounds.read_declared_size(data)
    assert (found.rows, found.values) == (1000, 3000)
    assert found.compressed is (compression is not None)
    assert SMALL.nbytes <= found.bytes < SMALL.nbytes + 1000
    check_frame(data)


def test_dictionaries_before_a_batch_count_too():
    batch = pa.RecordBatch.from_arrays(
        [pa.array(["x" * 1000, "y"] * 50).dictionary_encode()], names=["d"]
    )
    assert frame_bounds.read_declared_size(message(batch, "zstd")).bytes >= 1000


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_a_bomb_is_refused_before_it_is_decoded(compression):
    data = message(zeros(300), compression)
    assert len(data) < 2 << 20
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(FrameTooLargeError, match="out of"):
        check_frame(data)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 10


def test_a_large_row_that_is_not_compressed_passes():
    check_frame(message(zeros(80)))


def test_rows_that_cost_nothing_are_bounded():
    many = pa.RecordBatch.from_arrays([pa.nulls(frame_bounds.MAX_ROWS + 1)], names=["n"])
    with pytest.raises(FrameTooLargeError, match="rows"):
        check_frame(message(many))
    lists = pa.ListArray.from_arrays(pa.array([0, 1 << 30], pa.int32()), pa.nulls(1 << 30))
    with pytest.raises(FrameTooLargeError, match="values"):
        check_frame(message(pa.RecordBatch.from_arrays([lists], names=["l"])))


def test_no_bytes_break_the_reader():
    """Whatever is changed, it is refused as such or read; nothing else is raised."""
    dice = random.Random(7)
    for data in (message(SMALL), message(SMALL, "zstd")):
        for _ in range(5000):
            changed = bytearray(data)
            for _ in range(dice.randrange(1, 4)):
                changed[dice.randrange(600)] = dice.randrange(256)
            cut = dice.choice([len(changed), dice.randrange(len(changed))])
            with suppress(MalformedFrameError, FrameTooLargeError):
                check_frame(bytes(changed[:cut]))


def column_of(array: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([array], names=["c"])


LONG = "x" * 1000
INDICES = pa.array([0] * 500, pa.int32())


@pytest.mark.parametrize(
    "array",
    [
        pa.DictionaryArray.from_arrays(INDICES, pa.array([LONG])),
        pa.DictionaryArray.from_arrays(INDICES, pa.array([LONG], pa.large_string())),
        pa.DictionaryArray.from_arrays(INDICES, pa.array([[LONG]])),
        pa.StructArray.from_arrays(
            [pa.DictionaryArray.from_arrays(INDICES, pa.array([LONG]))], names=["s"]
        ),
        pa.ListArray.from_arrays(
            pa.array([0, 500], pa.int32()),
            pa.DictionaryArray.from_arrays(INDICES, pa.array([LONG])),
        ),
        pa.array([LONG] * 500, pa.string_view()),
        pa.array([LONG.encode()] * 500, pa.binary_view()),
    ],
    ids=lambda array: str(array.type)[:40],
)
def test_what_stands_behind_dictionaries_and_views_is_told_at_any_depth(array):
    batch = column_of(array)
    assert frames.may_expand(batch.schema)
    assert frames.expanded_bytes(batch) >= 500_000


def test_plain_rows_do_not_expand():
    assert not frames.may_expand(SMALL.schema)
    empty = column_of(pa.DictionaryArray.from_arrays(pa.array([], pa.int32()), pa.array(["x"])))
    assert frames.expanded_bytes(empty) == 0
    nulls = column_of(pa.DictionaryArray.from_arrays(pa.array([None], pa.int32()), pa.array(["x"])))
    assert frames.expanded_bytes(nulls) == 0


def test_json_lines_are_counted_before_they_are_read():
    wide = pa.schema([(f"c{n}", pa.int64()) for n in range(1000)])
    frame_bounds.check_json_lines(b"{}\n" * 1000, wide)
    with pytest.raises(FrameTooLargeError, match="bytes"):
        frame_bounds.check_json_lines(b"{}\n" * 100_000, wide)
    with pytest.raises(FrameTooLargeError, match="rows"):
        frame_bounds.check_json_lines(b"\n" * (frame_bounds.MAX_ROWS + 2), pa.schema([]))
    texts = pa.schema([("t", pa.string()), ("b", pa.bool_())])
    frame_bounds.check_json_lines(b'{"t":"x"}\n' * 100_000, texts)


# ── over the wire ───────────────────────────────────────────────────────────────────────────────


def code_of(plugin: TinyPlugin, batch: pa.RecordBatch, data: bytes) -> str:
    """The code by which a fetch of this frame is refused."""
    plugin.schema = batch.schema
    plugin.batches = {1: batch}
    plugin.frames = lambda seq, _: [frame(seq, batch, data=data)]
    ticket = plugin.ticket("t", [[1]])
    with pytest.raises(PenstockError) as caught:
        list(read_rows(ticket, ticket.slots[0]))
    return caught.value.code


def test_a_read_end_refuses_a_bomb_with_its_code(plugin):
    batch = zeros(300)
    assert code_of(plugin, batch, message(batch, "zstd")) == "plugin.protocol.inflated"


def test_a_read_end_refuses_a_dictionary_that_is_one(plugin):
    batch = column_of(
        pa.DictionaryArray.from_arrays(pa.array([0] * 1000, pa.int32()), pa.array(["x" * 100_000]))
    )
    assert code_of(plugin, batch, message(batch)) == "plugin.protocol.inflated"


def test_a_compressed_batch_arrives(plugin):
    batch = SMALL.select(["a", "b"])
    plugin.schema = batch.schema
    plugin.batches = {1: batch}
    plugin.frames = lambda seq, _: [frame(seq, batch, data=message(batch, "zstd"))]
    ticket = plugin.ticket("t", [[1]])
    assert [row for b in read_rows(ticket, ticket.slots[0]) for row in b.to_pylist()] == (
        batch.to_pylist()
    )


def test_a_message_that_grpc_decompresses_is_bounded(plugin):
    """gRPC stops at the largest message, and the read end says that it will not come again."""
    batch = zeros(100)
    plugin.compression = grpc.Compression.Gzip
    assert code_of(plugin, batch, message(batch)) == "plugin.protocol.message_too_large"


def test_a_whole_stream_is_named_as_the_mistake():
    batch = pa.RecordBatch.from_pydict({"n": [1]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    with pytest.raises(MalformedFrameError, match="begins with a schema; send the record batch"):
        frame_bounds.read_declared_size(sink.getvalue().to_pybytes())
