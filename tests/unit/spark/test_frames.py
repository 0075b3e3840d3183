"""Bytes of plugins become rows in one place, which refuses what is cut or too large."""

import ast
import random

import pyarrow as pa
import pytest

from penstock.api.record.v1 import record_pb2
from penstock.model.errors import InternalError, PenstockError
from penstock.spark.connector_io.frames import parse_schema
from penstock.spark.connector_io.plugin_transform import decode_rows
from penstock_values.frame_bounds import MAX_ROWS
from support.checkout import ROOT, name_of, python_files, syntax_of

SMALL = pa.RecordBatch.from_arrays(
    [pa.array(["x" * 100] * 50), pa.array(range(50)), pa.array(["a", "b"] * 25)], names=list("abc")
)


def frame(batch, compression=None, *, rows=None, data=None):
    if data is None:
        options = pa.ipc.IpcWriteOptions(compression=compression)
        out = pa.BufferOutputStream()
        with pa.ipc.new_stream(out, batch.schema, options=options) as stream:
            stream.write_batch(batch)
        data = out.getvalue().to_pybytes()[batch.schema.serialize().size : -8]
    return record_pb2.Batch(
        seq=1,
        schema_id=1,
        rows=batch.num_rows if rows is None else rows,
        encoding=record_pb2.ENCODING_ARROW_IPC,
        data=data,
    )


def code_of(batch, sent):
    with pytest.raises(PenstockError) as caught:
        decode_rows([sent], batch.schema)
    return caught.value.code


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_an_answer_is_taken_compressed_or_not(compression):
    assert decode_rows([frame(SMALL, compression)], SMALL.schema).equals(SMALL)


def test_an_answer_may_have_dictionaries():
    batch = SMALL.set_column(2, "c", SMALL["c"].dictionary_encode())
    assert decode_rows([frame(batch)], batch.schema).equals(SMALL)


def test_an_answer_that_becomes_too_large_is_refused_before_it_is_decoded():
    batch = pa.record_batch({"z": pa.array([bytes(1 << 20)] * 300, pa.large_binary())})
    assert code_of(batch, frame(batch, "zstd")) == "plugin.protocol.inflated"


def test_an_answer_of_rows_that_cost_nothing_is_bounded():
    batch = pa.record_batch({"n": pa.nulls(MAX_ROWS + 1)})
    assert code_of(batch, frame(batch)) == "plugin.protocol.inflated"


def test_an_answer_whose_dictionary_stands_for_more_is_refused():
    values = pa.DictionaryArray.from_arrays(
        pa.array([0] * 1000, pa.int32()), pa.array(["x" * 100_000])
    )
    batch = pa.record_batch({"d": values})
    assert code_of(batch, frame(batch)) == "plugin.protocol.inflated"


def test_an_answer_in_another_encoding_or_with_other_rows_is_refused():
    lines = frame(SMALL)
    lines.encoding = record_pb2.ENCODING_JSON_LINES
    assert code_of(SMALL, lines) == "plugin.protocol.encoding"
    assert code_of(SMALL, frame(SMALL, rows=7)) == "plugin.protocol.rows"


def outcome(sent):
    """Rows, or the code by which they are refused; any other error escapes."""
    try:
        return decode_rows([sent], SMALL.schema)
    except PenstockError as error:
        return error.code


def test_no_frame_that_is_cut_or_changed_breaks_the_reader():
    """Each is rows or a coded error; a cut one was an EOFError."""
    chance = random.Random(7)
    for compression in (None, "lz4", "zstd"):
        whole = frame(SMALL, compression).data
        assert code_of(SMALL, frame(SMALL, data=b"")) == "plugin.protocol.frame"
        for cut in range(1, len(whole), max(1, len(whole) // 200)):
            assert code_of(SMALL, frame(SMALL, data=whole[:cut])).startswith("plugin.protocol.")
        for _ in range(300):
            changed = bytearray(whole)
            for _ in range(chance.randint(1, 4)):
                changed[chance.randrange(len(changed))] = chance.randrange(256)
            found = outcome(frame(SMALL, data=bytes(changed)))
            assert isinstance(found, pa.RecordBatch) or found.startswith("plugin.protocol.")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff" * 64,
        pa.schema([("a", pa.int8()), ("a", pa.int8())]).serialize().to_pybytes(),
        pa.schema([("a", pa.int8())]).serialize().to_pybytes()[:-9],
        bytes(9 << 20),
    ],
)
def test_a_schema_of_an_answer_is_checked_as_that_of_a_source(data):
    with pytest.raises(InternalError) as caught:
        parse_schema(data)
    assert caught.value.code == "plugin.protocol.schema"


READERS = {"read_record_batch", "read_message", "open_stream", "open_file", "read_tensor"}
MAY_READ = {
    "services/penstock/spark/connector_io/frames.py",  # the only decoder
}


def readers(tree):
    """Calls that decode Arrow messages of rows."""
    return [n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and n.attr in READERS]


def test_only_one_file_decodes_rows_of_plugins():
    files = python_files(ROOT / "services" / "penstock")
    found = {name_of(file) for file in files if readers(syntax_of(file))}
    assert found == MAY_READ


def test_a_second_decoder_would_be_noticed():
    assert readers(ast.parse("rows = pa.ipc.read_record_batch(data, schema)"))
