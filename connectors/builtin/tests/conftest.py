"""What the tests of the shipped connectors share: tasks driven by hand, in this thread."""

import time

import pyarrow as pa
import pytest

from penstock_builtin.file_sink import FileSink, FileSinkConfig
from penstock_builtin.file_source import FileSource, FileSourceConfig
from penstock_connector import Partition, partition_id

DEADLINE = 60


class Reader:
    """A file source as the SDK drives it; offsets are kept as the host would."""

    def __init__(self, config, offsets=None, tasks=1, kind=FileSource):
        self.source = kind()
        self.offsets = dict(offsets or {})
        self.rows = []
        self.batches = []
        self.bad = []
        self.source.init(config)
        planned = kind.plan(config, tasks, [])
        self.partitions = [
            Partition(p.key, offset=self.offsets.get(p.id), payload=p.payload) for p in planned
        ]
        self.source.connect(self.partitions)

    def step(self):
        """Read one batch; None when there is none now."""
        batch = self.source.read_batch()
        if batch is not None:
            self.batches.append(batch)
            self.bad += batch.bad_rows
            rows = batch.rows
            rows = rows.to_pylist() if isinstance(rows, pa.RecordBatch) else list(rows)
            self.rows += rows
            if batch.offset is not None:
                self.offsets[partition_id(batch.partition)] = dict(batch.offset)
        return batch

    def drain(self):
        """Read all that is there now."""
        while self.step() is not None:
            pass
        return self.rows

    def until(self, condition):
        """Read and wait until a condition holds."""
        end = time.monotonic() + DEADLINE
        while not condition():
            assert time.monotonic() < end, f"never happened; rows so far: {self.rows[-5:]}"
            if self.step() is None:
                self.source.wait(0.2)

    @property
    def lines(self):
        return [row["line"] for row in self.rows]


@pytest.fixture
def read(tmp_path):
    """Start a reader of files in the test's folder."""
    readers = []

    def start(*paths, offsets=None, tasks=1, **config):
        named = tuple(str(tmp_path / path) for path in paths)
        reader = Reader(FileSourceConfig(path=named, **config), offsets, tasks)
        readers.append(reader)
        return reader

    yield start
    for reader in readers:
        reader.source.close()


@pytest.fixture
def reading():
    """What starts a reader of any configuration: configuration, offsets, tasks."""
    readers = []

    def start(config, offsets=None, tasks=1, kind=FileSource):
        readers.append(Reader(config, offsets, tasks, kind))
        return readers[-1]

    yield start
    for reader in readers:
        reader.source.close()


class Writer:
    """A file sink as the SDK drives it."""

    def __init__(self, config, task="g-0", epoch=1):
        self.sink = FileSink()
        self.sink.init(config)
        self.sink.connect(task, epoch)
        self.epoch = epoch
        self.txn = 0
        self.prepared = None
        self.refused = []

    def stage(self, *batches, slot=0, attempt=0, dataset=""):
        batches = [to_batch(batch) for batch in batches]
        self.sink.apply_schema(dataset, batches[0].schema, ())
        staging = self.sink.stage(self.txn, slot, attempt, dataset, batches[0].schema)
        for batch in batches:
            self.refused += [(row, error.code) for row, error in staging.put(batch) or ()]
        staging.close()
        return staging

    def prepare(self, *staged):
        state = self.sink.prepare(self.txn, self.epoch, list(staged), b"token")
        self.prepared = (self.txn, self.epoch, state)
        return state

    def begin(self):
        self.txn += 1

    def write(self, *batches, dataset=""):
        """A whole transaction with a slot for each batch."""
        self.begin()
        staged = [
            self.stage(batch, slot=slot, dataset=dataset) for slot, batch in enumerate(batches)
        ]
        state = self.prepare(*staged)
        return self.sink.commit(self.txn, self.epoch, state)


def to_batch(rows):
    if isinstance(rows, pa.RecordBatch):
        return rows
    if rows and isinstance(rows[0], str):
        rows = [{"line": row} for row in rows]
    return pa.RecordBatch.from_pylist(rows)


@pytest.fixture
def writer(tmp_path):
    """Start a file sink; `file` and `path` are inside the test's folder."""
    writers = []

    def start(task="g-0", epoch=1, **config):
        for name in ("file", "path"):
            if name in config:
                config[name] = str(tmp_path / config[name])
        made = Writer(FileSinkConfig(**config), task, epoch)
        writers.append(made)
        return made

    yield start
    for made in writers:
        made.sink.close()


@pytest.fixture
def writing():
    """What starts a writer of any configuration: configuration, task, epoch."""
    writers = []

    def start(config, task="g-0", epoch=1):
        writers.append(Writer(config, task, epoch))
        return writers[-1]

    yield start
    for made in writers:
        made.sink.close()
