"""Batches that pass between plugins and executors in memory files."""

import base64
import os
import threading
from pathlib import Path

import pytest

from penstock.api.record.v1 import record_pb2
from penstock.model.errors import InternalError, PenstockError, RetriableError
from penstock.spark.connector_io.sink_writer import write_rows
from penstock.spark.connector_io.source_reader import read_rows
from penstock_values.memory_files import MemoryFile
from tests.unit.spark.tiny_plugin import answered, frame, rows

NAME = "penstock-" + 32 * "0"


def read(plugin, **options):
    ticket = plugin.ticket("t", [[1, 2]], **options)
    return [row for batch in read_rows(ticket, ticket.slots[0]) for row in batch.to_pylist()]


def write(plugin, batches):
    ticket = plugin.ticket("t", [[1]])
    return write_rows(ticket, ticket.slots[0], 0, batches)


def open_memory_files():
    found = 0
    for entry in os.scandir("/proc/self/fd"):
        try:
            found += str(Path(entry.path).readlink()).startswith("/memfd:penstock-")
        except FileNotFoundError:
            continue
    return found


@pytest.fixture(autouse=True)
def _closed(plugin):
    """Whatever happens, this side keeps no file."""
    plugin.share_memory()
    before = open_memory_files()
    yield
    assert open_memory_files() == before


@pytest.fixture
def files():
    """Memory files of the plugin, which is this process, too."""
    made, lock, is_over = [], threading.Lock(), threading.Event()

    def create(batch):
        with lock:  # a call that was cancelled goes on for a moment
            assert not is_over.is_set()
            made.append(MemoryFile.create(batch.serialize()))
            return made[-1].message

    yield create
    with lock:
        is_over.set()
        for file in made:
            file.close()


def in_files(create, **fields):
    return lambda seq, batch: [frame(seq, batch, data=b"", memory_file=create(batch), **fields)]


# ── Fetch ────────────────────────────────────────────────────────────────────────────────────────


def test_rows_in_memory_files_are_read(plugin, files):
    plugin.frames = in_files(files)
    assert read(plugin) == plugin.source_rows()[:2000]


def test_a_source_is_told_who_can_open_its_memory_files(plugin):
    told = plugin.offered_memory_files
    read(plugin)
    elsewhere = record_pb2.MemoryFile(process_id=2**22 + 1, descriptor=3, bytes=1, name=NAME)
    plugin.memory_file = base64.b64encode(elsewhere.SerializeToString()).decode()
    read(plugin)
    plugin.memory_file = ""
    read(plugin)
    assert told == [True, False, False]


def unsealed(batch):
    data = batch.serialize()
    descriptor = os.memfd_create(NAME, os.MFD_ALLOW_SEALING)
    os.write(descriptor, data)
    return record_pb2.MemoryFile(
        process_id=os.getpid(), descriptor=descriptor, bytes=data.size, name=NAME
    )


def test_a_file_that_is_not_sealed_is_refused(plugin):
    batch = unsealed(rows(1000, 1000))
    plugin.frames = in_files(lambda _: batch)
    with pytest.raises(InternalError, match="not sealed") as caught:
        read(plugin)
    assert caught.value.code == "plugin.protocol.memory_file"
    os.close(batch.descriptor)


@pytest.mark.parametrize(
    "fields",
    [{"data": b"rows"}, {"more_chunks": True}, {"encoding": record_pb2.ENCODING_JSON_LINES}],
    ids=str,
)
def test_a_file_beside_anything_else_is_refused(plugin, files, fields):
    plugin.frames = lambda seq, batch: [
        frame(seq, batch, **{"data": b"", "memory_file": files(batch), **fields})
    ]
    with pytest.raises(PenstockError) as caught:
        read(plugin)
    assert caught.value.code.startswith("plugin.protocol.")


def test_a_file_larger_than_announced_is_refused_before_it_is_read(plugin, files):
    plugin.frames = in_files(files)
    with pytest.raises(InternalError) as caught:
        read(plugin, announced_bytes=1000)
    assert caught.value.code == "plugin.protocol.bytes"


def test_a_file_with_other_rows_than_announced_is_refused(plugin, files):
    plugin.frames = in_files(lambda _: files(rows(0, 999)))
    with pytest.raises(InternalError) as caught:
        read(plugin)
    assert caught.value.code == "plugin.protocol.rows"


def test_rows_of_a_plugin_that_is_gone_are_fetched_again(plugin, files):
    gone = MemoryFile.create(rows(0, 1000).serialize())
    gone.close()
    plugin.frames = in_files(lambda _: gone.message)
    with pytest.raises(RetriableError) as caught:
        read(plugin)
    assert caught.value.code == "plugin.memory_file_gone"


# ── Put ──────────────────────────────────────────────────────────────────────────────────────────

LARGE = rows(0, 50_000)


def test_large_batches_are_put_in_memory_files_and_small_ones_are_not(plugin):
    result = write(plugin, [LARGE, rows(0, 10)])
    assert result.rows == 50_010
    (kept,) = plugin.put.values()
    assert kept[0].equals(LARGE)
    assert plugin.in_memory == 1
    assert plugin.sizes[0] == 0
    assert plugin.sizes[1] > 0


def test_an_executor_of_another_machine_puts_no_memory_files(plugin):
    plugin.memory_file = ""
    write(plugin, [LARGE])
    assert plugin.in_memory == 0


def test_a_file_is_closed_with_the_answer_to_its_batch(plugin):
    before = open_memory_files()
    seen = []

    def answer(batch):
        seen.append(open_memory_files())
        return answered(batch, [])

    def batches():
        for number in range(3):
            yield LARGE
            # the answer comes in a thread of its own
            end = threading.Event()
            for _ in range(1000):
                if len(seen) > number and open_memory_files() == before:
                    break
                end.wait(0.01)

    plugin.answer = answer
    write(plugin, batches())
    assert seen == [before + 1] * 3


def test_a_put_that_fails_leaves_no_file(plugin):
    plugin.answer = lambda _: None  # the sink ends the call without an answer
    with pytest.raises(InternalError) as caught:
        write(plugin, [LARGE, LARGE])
    assert caught.value.code == "plugin.protocol.no_result"


def test_where_there_is_no_room_batches_are_put_as_before(plugin, monkeypatch):
    monkeypatch.setattr(MemoryFile, "create", staticmethod(lambda _: None))
    assert write(plugin, [LARGE]).rows == 50_000
    assert plugin.in_memory == 0
    assert plugin.put[1, 0, 0][0].equals(LARGE)
