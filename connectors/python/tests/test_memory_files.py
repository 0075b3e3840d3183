"""Batches in memory files: what is read of another process, and what is refused."""

import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest

from penstock.api.connector.v1 import connector_service_pb2 as connector_pb
from penstock.api.connector.v1 import plugin_service_pb2 as plugin_pb
from penstock.api.connector.v1 import sink_service_pb2 as sink_pb
from penstock.api.connector.v1 import source_service_pb2 as source_pb
from penstock.api.connector.v1 import types_pb2 as types_pb
from penstock.api.connector.v1.plugin_service_pb2_grpc import PluginServiceStub
from penstock.api.connector.v1.sink_service_pb2_grpc import SinkServiceStub
from penstock.api.connector.v1.source_service_pb2_grpc import SourceServiceStub
from penstock.api.record.v1 import record_pb2 as pb
from penstock_connector import Batch, Partition, Source, TransactionalSink
from penstock_connector._testcontrol import as_remote_error, target_of
from penstock_connector._values import partition_to_proto
from penstock_connector.staging import Budget, MemoryStaging
from penstock_connector.testing import RemoteError, SourceTask, Testbed, sink_task
from penstock_values import memory_files
from penstock_values.memory_files import (
    BrokenMemoryFileError,
    MemoryFile,
    MemoryFileGoneError,
    can_read,
    own_memory_file,
    read_memory_file,
)

NAME = "penstock-" + 32 * "0"

OTHER_PROCESS = """
import os, time
from penstock_values.memory_files import MemoryFile
file = MemoryFile.create(b"rows" * 100_000)
os.write(1, file.message.SerializeToString())
os.close(1)
time.sleep(600)
"""


@pytest.fixture
def others():
    """A file of another process, and that process."""
    process = subprocess.Popen([sys.executable, "-c", OTHER_PROCESS], stdout=subprocess.PIPE)
    with process:
        yield pb.MemoryFile.FromString(process.stdout.read()), process
        process.kill()


def of(descriptor, size, name=NAME):
    return pb.MemoryFile(process_id=os.getpid(), descriptor=descriptor, bytes=size, name=name)


def unsealed(content=b"rows", name=NAME):
    descriptor = os.memfd_create(name, os.MFD_ALLOW_SEALING)
    os.write(descriptor, content)
    return of(descriptor, len(content), name)


def test_a_file_of_another_process_is_read_and_gone_with_it(others):
    message, process = others
    assert read_memory_file(message).to_pybytes() == b"rows" * 100_000
    process.send_signal(signal.SIGKILL)
    process.wait()
    with pytest.raises(MemoryFileGoneError):
        read_memory_file(message)


def test_a_closed_file_is_gone_also_when_its_number_is_used_again():
    first = MemoryFile.create(b"first")
    first.close()
    with pytest.raises(MemoryFileGoneError):
        read_memory_file(first.message)
    second = MemoryFile.create(b"other")
    assert second.message.descriptor == first.message.descriptor
    with pytest.raises(MemoryFileGoneError, match="not the memory file"):
        read_memory_file(first.message)
    second.close()


def test_a_file_that_is_not_sealed_is_refused():
    message = unsealed()
    with pytest.raises(BrokenMemoryFileError, match="not sealed"):
        read_memory_file(message)
    os.close(message.descriptor)


def test_a_file_of_another_size_is_refused():
    file = MemoryFile.create(b"rows")
    file.message.bytes = 5
    with pytest.raises(BrokenMemoryFileError, match="has 4 bytes"):
        read_memory_file(file.message)
    file.close()


def test_only_memory_files_of_their_name_are_opened(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"rows")
    with path.open("rb") as file, pytest.raises(MemoryFileGoneError, match="not the memory file"):
        read_memory_file(of(file.fileno(), 4))
    ends = os.pipe()  # opening one of these would wait for the other
    with pytest.raises(MemoryFileGoneError, match="not the memory file"):
        read_memory_file(of(ends[0], 4))
    for end in ends:
        os.close(end)
    with pytest.raises(BrokenMemoryFileError, match="is called"):
        read_memory_file(of(0, 4, "../../etc/passwd"))


def test_a_process_that_is_not_there_has_none():
    message = pb.MemoryFile(process_id=2**22 + 1, descriptor=3, bytes=1, name=NAME)
    assert not can_read(message)
    assert can_read(own_memory_file())


def test_a_file_that_only_shows_itself_is_small():
    large = MemoryFile.create(b"x" * 4097)
    assert not can_read(large.message), "a sparse file of any size costs its maker nothing"
    large.close()


def test_descriptors_are_left_to_everything_else(monkeypatch):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (4, hard))
    assert MemoryFile.create(b"rows") is None
    monkeypatch.undo()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (soft, hard)


# ── tasks ────────────────────────────────────────────────────────────────────────────────────────

LARGE = pa.record_batch({"text": ["x" * 1000] * 1000})
SMALL = pa.record_batch({"text": ["x"]})


class Large(Source):
    """A large batch, and a small one."""

    name = "large"

    def __init__(self):
        super().__init__()
        self.left = [SMALL, LARGE]

    @classmethod
    def plan(cls, config, max_tasks, known):
        return [Partition({"p": 1})]

    def read_batch(self):
        if not self.left:
            return None
        return Batch(self.left.pop(), dataset="d", offset={"left": len(self.left)})


def open_memory_files():
    """Return how many memory files this process, which is the plugin, too, holds open."""
    own = memory_files._own_file(os.getpid())
    names = []
    for entry in os.scandir("/proc/self/fd"):
        try:
            names.append(str(Path(entry.path).readlink()))
        except FileNotFoundError:
            continue
    kept = own.message.name if own else "none"
    return sum(name.startswith("/memfd:penstock-") and kept not in name for name in names)


def eventually(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "not within 30 s"
        time.sleep(0.01)


@contextmanager
def reading(*, memory_files):
    """A task of `Large` whose host offers memory files, or none."""
    with Testbed(Large) as bed:
        order = source_pb.ReadOpen(
            target=target_of(Large, {}),
            task=connector_pb.TaskPlan(
                task_id="test-0", partitions=[partition_to_proto(Partition({"p": 1}))]
            ),
            epoch=1,
            encodings=[pb.ENCODING_ARROW_IPC],
            credit=types_pb.Credit(bytes=1 << 24),
            memory_files=memory_files,
        )
        task = SourceTask(bed, order)
        try:
            yield bed, task
        finally:
            task.call.cancel()


def fetch(bed, seq, *, memory_files=True):
    """The only frame of a batch."""
    request = source_pb.FetchRequest(
        task_id="test-0", epoch=1, from_seq=seq, to_seq=seq, memory_files=memory_files
    )
    (frame,) = SourceServiceStub(bed.channel).Fetch(request, metadata=bed.metadata)
    return frame.batch


def rows_of(data):
    return pa.ipc.read_record_batch(data, LARGE.schema)


def test_large_batches_are_fetched_in_memory_files_until_they_are_released():
    before = open_memory_files()
    with reading(memory_files=True) as (bed, task):
        task.until("ready")
        batch = fetch(bed, 1)
        assert not batch.data
        assert rows_of(read_memory_file(batch.memory_file)).equals(LARGE)
        assert fetch(bed, 1) == batch
        elsewhere = fetch(bed, 1, memory_files=False)  # by an executor of another machine
        assert not elsewhere.HasField("memory_file")
        assert rows_of(elsewhere.data).equals(LARGE)
        task.until("ready")
        assert fetch(bed, 2).data
        assert open_memory_files() == before + 1
        task.release(1)
        eventually(lambda: open_memory_files() == before)


def test_memory_files_end_with_their_task():
    before = open_memory_files()
    with reading(memory_files=True) as (_bed, task):
        task.until("ready")
        assert open_memory_files() == before + 1
    eventually(lambda: open_memory_files() == before)


def test_a_host_that_offers_no_memory_files_gets_none():
    before = open_memory_files()
    with reading(memory_files=False) as (bed, task):
        task.until("ready")
        assert not fetch(bed, 1).HasField("memory_file")
        assert open_memory_files() == before


class Kept(TransactionalSink):
    """Keeps what was put last."""

    name = "kept"
    last: ClassVar[list] = []

    def stage(self, txn_id, slot, attempt, dataset, schema):
        def keep(rows):
            self.last[:] = [rows]
            return ()

        return MemoryStaging(dataset, keep, Budget(1 << 24, "test.full", ""))

    def prepare(self, txn_id, epoch, stagings, token):
        return b""

    def commit(self, txn_id, epoch, state):
        pass


@contextmanager
def writing():
    """Puts of batches in memory files into a task of `Kept`."""
    with Testbed(Kept) as bed, sink_task(Kept, {}, bed=bed) as task:
        task.put(SMALL, txn_id=1, slot=1)  # so that the schema is known

        def put(file, **fields):
            batch = pb.Batch(
                seq=1,
                schema_id=1,
                rows=LARGE.num_rows,
                encoding=pb.ENCODING_ARROW_IPC,
                memory_file=file,
                **fields,
            )
            opened = sink_pb.PutOpen(task_id="test-0", epoch=1, txn_id=1)
            frames = [sink_pb.PutRequest(open=opened), sink_pb.PutRequest(batch=batch)]
            with as_remote_error():
                return list(SinkServiceStub(bed.channel).Put(iter(frames), metadata=bed.metadata))

        yield put


def test_rows_in_a_memory_file_are_put():
    file = MemoryFile.create(LARGE.serialize())
    with writing() as put:
        (answer,) = put(file.message)
        file.close()
        assert answer.batch_result.all_ok
        assert Kept.last[-1].equals(LARGE)


def test_broken_and_lost_memory_files_fail_a_put_by_name():
    file = MemoryFile.create(LARGE.serialize())
    with writing() as put:
        broken = unsealed()
        with pytest.raises(RemoteError, match="not sealed") as caught:
            put(broken)
        assert caught.value.code == "wire.memory_file.broken"
        os.close(broken.descriptor)
        with pytest.raises(RemoteError, match="rows beside its memory file"):
            put(file.message, data=b"rows")
        with pytest.raises(RemoteError, match="rows beside its memory file"):
            put(file.message, more_chunks=True)
        file.close()
        with pytest.raises(RemoteError) as caught:
            put(file.message)
        assert caught.value.code == "wire.memory_file.gone"


def test_a_plugin_shows_its_file_to_a_host_whose_file_it_can_read():
    with Testbed(Large) as bed:
        stub = PluginServiceStub(bed.channel)

        def describe(file):
            request = plugin_pb.DescribeRequest(memory_file=file)
            return stub.Describe(request, metadata=bed.metadata)

        answer = describe(own_memory_file())
        assert can_read(answer.memory_file)
        assert answer.connectors
        elsewhere = pb.MemoryFile(process_id=2**22 + 1, descriptor=3, bytes=1, name=NAME)
        assert not describe(elsewhere).HasField("memory_file")
        assert not describe(None).HasField("memory_file")
