"""Rows → record batches."""

from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa
import pytest

from penstock.api.connector.v1 import source_service_pb2 as source_pb
from penstock.api.record.v1 import record_pb2 as pb
from penstock_connector import ConnectorError, SchemaError
from penstock_connector import _frames as frames
from penstock_connector._rows import Cut, Schemas, to_arrow


@dataclass
class Point:
    x: int
    name: str | None


def test_dicts_dataclasses_and_tables_become_the_same_batch():
    wanted = pa.record_batch({"x": [1, 2], "name": ["a", None]})
    dicts = [{"x": 1, "name": "a"}, {"x": 2}]
    assert to_arrow(dicts, None, None).equals(wanted)
    assert to_arrow([Point(1, "a"), Point(2, None)], None, None).equals(wanted)
    assert to_arrow(pa.Table.from_batches([wanted[:1], wanted[1:]]), None, None).equals(wanted)
    assert to_arrow(wanted, None, None) is wanted


def test_decimals_are_exactly_what_was_given():
    schema = pa.schema({"d": pa.decimal128(38, 2)})
    rows = to_arrow([{"d": Decimal("1.5")}, {"d": None}, {"d": 3}], schema, None)
    assert rows.to_pylist() == [{"d": Decimal("1.50")}, {"d": None}, {"d": Decimal(3)}]
    for text in ("1.505", "1e-77", "1e-999999999", "1e99"):
        with pytest.raises(SchemaError, match="digits after its point"):
            to_arrow([{"d": Decimal(text)}], schema, None)
        with pytest.raises(pa.ArrowInvalid):
            to_arrow(pa.record_batch({"d": [text]}), schema, None)


def test_inferred_rows_keep_to_the_schema_so_far():
    first = to_arrow([{"a": 1, "b": "x"}], None, None)
    second = to_arrow([{"b": None, "a": 2}], None, first.schema)
    assert second.schema == first.schema
    assert second.to_pylist() == [{"a": 2, "b": None}]


def test_a_new_column_and_a_wider_type_grow_the_schema():
    first = to_arrow([{"a": 1}], None, None)
    second = to_arrow([{"a": 1.5, "b": "x"}], None, first.schema)
    assert second.schema == pa.schema({"a": pa.float64(), "b": pa.string()})


def test_a_number_is_never_cut_silently():
    schema = pa.schema({"a": pa.int64()})
    with pytest.raises(SchemaError):
        to_arrow([{"a": 1}, {"a": 1.5}], schema, None)
    assert to_arrow([{"a": 2.0}], schema, None).to_pylist() == [{"a": 2}]
    assert to_arrow([{"a": 1.5}], None, schema).to_pylist() == [{"a": 1.5}]


def test_rows_with_columns_that_their_schema_has_not_are_refused():
    with pytest.raises(SchemaError, match="rows have columns"):
        to_arrow([{"a": 1, "b": 2}], pa.schema({"a": pa.int64()}), None)


def test_rows_without_common_types_are_refused():
    with pytest.raises(SchemaError, match="no common column types"):
        to_arrow([{"a": 1}, {"a": "x"}], None, None)


def test_dictionary_columns_are_decoded():
    column = pa.array(["a", "b", "a"]).dictionary_encode()
    rows = to_arrow(pa.record_batch({"c": column}), None, None)
    assert rows.schema.field("c").type == pa.string()


def test_slices_hold_their_limits_and_all_rows():
    rows = pa.record_batch({"s": ["x" * (i % 50 * 100) for i in range(1000)]})
    cut = Cut(target_bytes=100_000, most_rows=64, most_bytes=120_000)
    slices = list(cut.apply(rows))
    assert pa.Table.from_batches(slices).to_batches()[0].schema == rows.schema
    assert pa.Table.from_batches(slices).combine_chunks().to_batches()[0].equals(rows)
    assert all(s.num_rows <= 64 and s.nbytes <= 120_000 for s in slices)


def test_a_single_large_row_is_left_to_chunks():
    rows = pa.record_batch({"s": ["x", "y" * 1000, "z"]})
    assert [s.num_rows for s in Cut(most_bytes=100).apply(rows)] == [1, 1, 1]


def test_each_version_of_a_schema_has_one_id():
    schemas, a, b = Schemas(), pa.schema({"a": pa.int64()}), pa.schema({"b": pa.int64()})
    numbers = [schemas.id_of("d", s, ())[0] for s in (a, a, b, a)]
    assert numbers == [1, 1, 2, 1]
    assert schemas.id_of("other", a, ())[0] == 3
    assert schemas.id_of("d", a, ("a",))[0] == 4


def test_only_a_new_schema_has_a_frame():
    schemas, a = Schemas(), pa.schema({"a": pa.int64()})
    _, frame = schemas.id_of("d", a, ("a",))
    assert frames.decode_schema(frame.arrow_schema) == a
    assert (frame.dataset, list(frame.key_columns)) == ("d", ["a"])
    assert schemas.id_of("d", a, ("a",))[1] is None


def test_hand_made_fetch_frames_are_the_protobuf_ones():
    rows = pa.record_batch({"a": list(range(1000))})
    head = pb.Batch(seq=3, schema_id=2, rows=1000)
    (frame,) = frames.fetch_frames(head, rows.serialize(), frames.MESSAGE_MOST)
    batch = source_pb.FetchResponse.FromString(frame).batch
    assert (batch.seq, batch.schema_id, batch.rows) == (3, 2, 1000)
    assert frames.decode_rows(batch.data, rows.schema).equals(rows)


def test_a_row_larger_than_a_message_comes_in_chunks():
    rows = pa.record_batch({"s": ["x" * 1_000_000]})
    most = 400_000
    sent = frames.fetch_frames(pb.Batch(seq=1), rows.serialize(), most)
    batches = [source_pb.FetchResponse.FromString(frame).batch for frame in sent]
    assert all(len(frame) <= most for frame in sent)
    assert [(b.chunk, b.more_chunks) for b in batches] == [(0, True), (1, True), (2, False)]
    chunks = frames.Chunks()
    data = [chunks.add(batch) for batch in batches]
    assert data[:2] == [None, None]
    assert frames.decode_rows(data[2], rows.schema).equals(rows)


def test_chunks_out_of_order_or_without_end_are_refused():
    with pytest.raises(ConnectorError, match="expected chunk 0") as caught:
        frames.Chunks().add(pb.Batch(chunk=1, data=b"x"))
    assert caught.value.code == "wire.chunk.order"
    astray = frames.Chunks()
    astray.add(pb.Batch(seq=1, data=b"x", more_chunks=True))
    with pytest.raises(ConnectorError, match="expected chunk 1 of batch 1"):
        astray.add(pb.Batch(seq=2, chunk=1, data=b"x"))
    chunks = frames.Chunks(max_bytes=10)
    chunks.add(pb.Batch(data=b"x" * 8, more_chunks=True))
    with pytest.raises(ConnectorError, match="larger than") as caught:
        chunks.add(pb.Batch(data=b"x" * 8, chunk=1, more_chunks=True))
    assert caught.value.code == "wire.batch.too_large"


def test_bytes_that_are_no_rows_are_refused():
    with pytest.raises(ConnectorError, match="not an Arrow IPC message"):
        frames.decode_rows(b"nonsense", pa.schema({"a": pa.int64()}))


def test_reserved_columns_of_inferred_rows_have_the_types_of_the_protocol():
    found = to_arrow([{"a": 1, "__op": 3, "__partition": 2, "__ts_us": None}], None, None)
    assert found.schema == pa.schema(
        {"a": pa.int64(), "__op": pa.int8(), "__partition": pa.int32(), "__ts_us": pa.int64()}
    )
    with pytest.raises(SchemaError, match="not in range"):
        to_arrow([{"__op": 300}], None, None)
