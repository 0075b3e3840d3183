"""Source reader and sink writer alone: the protocol is kept; a plugin that breaks it is named."""

import json
import threading

import pyarrow as pa
import pytest

from penstock.api.connector.v1 import sink_service_pb2 as sink_pb
from penstock.api.record.v1 import record_pb2
from penstock.model.errors import DataError, InternalError, PenstockError, RetriableError
from penstock.spark.connector_io import frames, sink_writer
from penstock.spark.connector_io.sink_writer import write_rows
from penstock.spark.connector_io.source_reader import read_rows
from tests.unit.spark.tiny_plugin import DEADLINE, SCHEMA, answered, frame, in_chunks, rows


def read(plugin, ticket):
    return [row for batch in read_rows(ticket, ticket.slots[0]) for row in batch.to_pylist()]


def write(plugin, ticket, batches, attempt=0):
    return write_rows(ticket, ticket.slots[0], attempt, batches)


def broken_by(plugin, kind=InternalError):
    """The code of the error of a fetch."""
    with pytest.raises(kind) as caught:
        read(plugin, plugin.ticket("t", [[1, 2]]))
    return caught.value.code


# ── read ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("size", [1, 100, 10_000, 1 << 20])
def test_chunks_of_any_size_are_put_together(plugin, size):
    plugin.batches = {1: rows(0, 50), 2: rows(50, 50)}
    plugin.frames = in_chunks(size)
    assert read(plugin, plugin.ticket("t", [[1, 2]])) == plugin.source_rows()


def test_only_the_ticket_s_batches_are_fetched_in_its_order(plugin):
    assert [r["id"] for r in read(plugin, plugin.ticket("t", [[3, 1]]))][::1000] == [3000, 1000]
    assert read(plugin, plugin.ticket("t", [[]])) == []


BROKEN = {
    "fetch_order": lambda seq, batch: [frame(seq + 1, batch)],
    "rows": lambda seq, batch: [frame(seq, batch, rows=7)],
    "schema": lambda seq, batch: [frame(seq, batch, schema_id=2)],
    "encoding": lambda seq, batch: [frame(seq, batch, encoding=record_pb2.ENCODING_JSON_LINES)],
    "frame": lambda seq, batch: [frame(seq, batch, data=b"no arrow at all")],
    "fetch_incomplete": lambda seq, batch: [frame(seq, batch)] if seq == 1 else [],
    "chunk_order": lambda seq, batch: [frame(seq, batch, chunk=1)],
    "chunk_missing": lambda seq, batch: [frame(seq, batch, more_chunks=True)] if seq == 1 else [],
}


def as_json_lines(plugin, data=None):
    """Let the source give JSON lines, and a ticket say that this was agreed on."""
    kind = record_pb2.ENCODING_JSON_LINES

    def text(batch):
        return "".join(json.dumps(row) + "\n" for row in batch.to_pylist()).encode()

    plugin.frames = lambda seq, batch: [
        frame(seq, batch, encoding=kind, data=text(batch) if data is None else data)
    ]
    ticket = plugin.ticket("t", [[1, 2]])
    ticket.slots[0].read["encoding"] = kind
    return ticket


def test_rows_come_as_json_lines_when_that_was_agreed_on(plugin):
    plugin.batches = {1: rows(0, 50), 2: rows(50, 50)}
    assert read(plugin, as_json_lines(plugin)) == plugin.source_rows()


@pytest.mark.parametrize("data", [b"{", b'{"other":1}\n', b'{"id":"x"}\n'])
def test_lines_that_are_no_rows_are_told(plugin, data):
    ticket = as_json_lines(plugin, data)
    with pytest.raises(InternalError) as caught:
        read(plugin, ticket)
    assert caught.value.code == "plugin.protocol.rows_unreadable"


def test_arrow_is_refused_when_json_lines_were_agreed_on(plugin):
    ticket = as_json_lines(plugin)
    plugin.frames = lambda seq, batch: [frame(seq, batch)]
    with pytest.raises(InternalError) as caught:
        read(plugin, ticket)
    assert caught.value.code == "plugin.protocol.encoding"


@pytest.mark.parametrize("what", BROKEN)
def test_a_source_that_breaks_the_protocol_is_told_how(plugin, what):
    plugin.frames = BROKEN[what]
    assert broken_by(plugin) == f"plugin.protocol.{what}"


@pytest.mark.parametrize("cut", [1 << 30, 1 << 10], ids=["whole", "in chunks"])
def test_a_batch_with_more_bytes_than_announced_is_refused(plugin, cut):
    plugin.frames = in_chunks(cut)
    size = rows(0, 1000).serialize().size
    plugin.batches = {1: rows(0, 1000)}
    assert read(plugin, plugin.ticket("t", [[1]], announced_bytes=size)) == plugin.source_rows()
    with pytest.raises(InternalError) as caught:
        read(plugin, plugin.ticket("t", [[1]], announced_bytes=size - 1))
    assert caught.value.code == "plugin.protocol.bytes"


def test_a_chunk_of_another_batch_is_astray(plugin):
    half = in_chunks(1 << 13)
    plugin.frames = lambda seq, batch: [half(1, batch)[0], *half(2, batch)[1:]]
    assert broken_by(plugin) == "plugin.protocol.chunk_order"


def test_a_batch_larger_than_the_limit_is_refused_before_it_is_whole(plugin, monkeypatch):
    monkeypatch.setattr(frames, "MAX_BATCH_BYTES", 1000)
    plugin.frames = in_chunks(600)
    assert broken_by(plugin) == "plugin.protocol.too_large"


@pytest.mark.parametrize("cut", [1, 64, 4096])
def test_a_frame_that_was_cut_short_is_found_out(plugin, cut):
    data = rows(0, 1000).serialize().to_pybytes()
    plugin.frames = lambda seq, batch: [frame(seq, batch, data=data[:-cut])]
    assert broken_by(plugin) == "plugin.protocol.frame"


def test_offsets_that_point_outside_never_get_past_the_read_end(plugin):
    """The JVM reads what they point at without a look."""
    data = rows(0, 2).serialize().to_pybytes()
    offsets = b"\0\0\0\0\x02\0\0\0\x04\0\0\0"
    assert data.count(offsets) == 1
    plugin.frames = lambda seq, batch: [
        frame(seq, rows(0, 2), data=data.replace(offsets, offsets[:-1] + b"\x0f"))
    ]
    assert broken_by(plugin) == "plugin.protocol.frame"


def test_a_string_that_is_no_text_is_found_out(plugin):
    name = pa.array([b"\xff\xfe"]).cast(pa.string(), safe=False)
    batch = pa.RecordBatch.from_arrays([pa.array([1], pa.int64()), name], schema=SCHEMA)
    plugin.frames = lambda seq, _: [frame(seq, batch)]
    assert broken_by(plugin) == "plugin.protocol.frame"


@pytest.mark.parametrize("nested", [False, True])
def test_dictionaries_are_read_from_the_messages_before_their_batch(plugin, nested):
    values = pa.array(["x", "y", "x"]).dictionary_encode()
    if nested:
        values = pa.StructArray.from_arrays([values], names=["v"])
    batch = pa.RecordBatch.from_arrays([values], names=["d"])
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, batch.schema) as stream:
        stream.write_batch(batch)
    message = out.getvalue().to_pybytes()[batch.schema.serialize().size : -8]  # without the end
    plugin.schema = batch.schema
    plugin.batches = {1: batch}
    plugin.frames = lambda seq, _: [frame(seq, batch, data=message)]
    assert read(plugin, plugin.ticket("t", [[1]])) == batch.to_pylist()


def test_a_reader_that_gives_up_lets_the_source_go(plugin):
    ticket = plugin.ticket("t", [[1, 2, 3, 4]])
    batches = read_rows(ticket, ticket.slots[0])
    next(batches)
    batches.close()
    waited = threading.Event()
    for _ in range(200):
        if not plugin.open_fetches:
            return
        waited.wait(0.05)
    raise AssertionError("the fetch is still open")


# ── write ───────────────────────────────────────────────────────────────────────────────────────


def test_every_batch_is_answered_and_rows_keep_their_order(plugin):
    written = write(plugin, plugin.ticket("t", [[1]]), [rows(0, 10), rows(10, 0), rows(10, 5)], 7)
    assert (written.rows, written.rejected, written.detail) == (15, [], {})
    assert [batch.num_rows for batch in plugin.put[1, 0, 7]] == [10, 5]


def test_no_rows_at_all_are_put_as_such(plugin):
    assert write(plugin, plugin.ticket("t", [[1]]), [], 1).rows == 0
    assert plugin.put[1, 0, 1] == []


def test_messages_stay_below_what_the_sink_takes(plugin):
    """Small and large rows mixed: cut by rows as far as it goes, then by bytes (R10)."""
    most = 256 << 10
    names = ["x" * (700_000 if n == 50 else n * 100) for n in range(100)]
    batch = rows(0, 100).set_column(1, "name", pa.array(names))
    written = write(plugin, plugin.ticket("t", [[1]], max_message_bytes=most), [batch])
    assert written.rows == 100
    assert max(plugin.sizes) <= most
    (put,) = plugin.put.values()
    assert [row for part in put for row in part.to_pylist()] == batch.to_pylist()


def test_a_large_batch_is_cut_into_frames(plugin):
    write(plugin, plugin.ticket("t", [[1]]), [rows(0, 400_000)])
    assert max(plugin.sizes) <= frames.FRAME_BYTES * 1.1
    assert len(plugin.sizes) > 2


def test_what_is_not_answered_is_bounded(plugin, monkeypatch):
    """A sink that does not answer gets one window, not all rows (invariant 12)."""
    monkeypatch.setattr(sink_writer, "WINDOW_BYTES", 1 << 20)
    pulled = []

    def endless():
        for start in range(10_000):
            pulled.append(start)
            yield rows(start * 10_000, 10_000)

    plugin.block_put.clear()
    with pytest.raises(RetriableError) as caught:
        write(plugin, plugin.ticket("t", [[1]], stall_timeout_s=0.5), endless())
    assert caught.value.code == "deadline.exceeded"
    assert "plugin.put" in caught.value.diagnostic.message
    assert len(pulled) < 10


def test_a_pause_of_the_rows_is_no_stall_of_the_sink(plugin):
    pause = threading.Event()

    def trickling():
        for n in range(3):
            pause.wait(1.5)
            yield rows(n, 1)

    assert write(plugin, plugin.ticket("t", [[1]], stall_timeout_s=1.2), trickling()).rows == 3


ANSWERS = {
    "result_order": lambda b: sink_pb.BatchResult(seq=b.seq + 1, all_ok=True),
    "result": lambda b: sink_pb.BatchResult(seq=b.seq),
    "result_rows": lambda b: answered(b, [10]),
    "no_result": lambda _: None,
}


@pytest.mark.parametrize("what", ANSWERS)
def test_a_sink_that_breaks_rule_7_is_told_how(plugin, what):
    plugin.answer = ANSWERS[what]
    with pytest.raises(InternalError) as caught:
        write(plugin, plugin.ticket("t", [[1]]), [rows(0, 10)])
    assert caught.value.code == f"plugin.protocol.{what}"


def test_a_second_answer_has_a_code_of_its_own(plugin):
    plugin.answer = lambda batch: sink_pb.BatchResult(seq=1, all_ok=True)
    with pytest.raises(InternalError) as caught:
        write(plugin, plugin.ticket("t", [[1]]), [rows(0, 10), rows(10, 10)])
    assert caught.value.code == "plugin.protocol.result_repeated"


def test_ok_and_refused_at_once_is_no_answer(plugin):
    plugin.answer = lambda b: sink_pb.BatchResult(
        seq=b.seq, all_ok=True, failed=[sink_pb.RowError(row=0)]
    )
    with pytest.raises(InternalError, match="does not report what became"):
        write(plugin, plugin.ticket("t", [[1]]), [rows(0, 10)])


def test_a_row_refused_twice_is_no_answer(plugin):
    plugin.refuse = [3, 3]
    with pytest.raises(InternalError, match="rows that it does not have"):
        write(plugin, plugin.ticket("t", [[1]]), [rows(0, 10)])


def test_refused_rows_are_counted_over_the_whole_slot(plugin):
    plugin.refuse = [4, 0]
    written = write(plugin, plugin.ticket("t", [[1]]), [rows(0, 10), rows(10, 10)])
    assert [row for row, _ in written.rejected] == [0, 4, 10, 14]
    assert written.rows == 16


def test_too_many_refused_rows_are_one_error(plugin, monkeypatch):
    """Their reasons would all travel through the driver."""
    monkeypatch.setattr(sink_writer, "MAX_REJECTED_ROWS", 5)
    plugin.refuse = list(range(6))
    with pytest.raises(DataError) as caught:
        write(plugin, plugin.ticket("t", [[1]]), [rows(0, 10)])
    assert caught.value.code == "sink.too_many_refused"


def test_an_error_of_the_rows_is_the_error_of_the_put(plugin):
    def failing():
        yield rows(0, 1)
        raise RetriableError("deadline.exceeded", "stage plugin.fetch made no progress")

    with pytest.raises(PenstockError, match=r"plugin\.fetch"):
        write(plugin, plugin.ticket("t", [[1]]), failing())


def test_a_put_leaves_no_thread_behind(plugin):
    ticket = plugin.ticket("t", [[1]])
    write(plugin, ticket, [rows(0, 10)])
    for thread in threading.enumerate():
        if thread.name == "put results":
            thread.join(DEADLINE)
            assert not thread.is_alive()
