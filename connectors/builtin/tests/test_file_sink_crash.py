"""A crash at any step loses nothing and repeats nothing.

Everything the sink does to the disk goes through one module. Each of its steps fails here in turn,
before it was done and after, as if the process ended there; another process recovers, as the host
would have it, and goes on.
"""

import contextlib
import json
import os

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock_builtin.file_sink import disk
from penstock_connector import ConnectorError

STEPS = (
    "create", "open_target", "write", "copy", "write_at", "truncate", "sync", "sync_folder",
    "rename", "unlink", "make_folder",
)  # fmt: skip

TARGETS = {
    "one file": {"file": "out.txt", "text_column": "line"},
    "csv with a header": {"file": "out.csv", "format": "csv"},
    "rolling by rows": {"path": "out", "rotate_rows": 3, "text_column": "line"},
    "rolling by bytes": {"path": "out", "rotate_bytes": 20, "format": "jsonl"},
    "parquet": {"path": "out", "format": "parquet"},
    "avro": {
        "path": "out",
        "format": "avro",
        "rotate_rows": 3,
        "compression": "none",
        "fsync": False,
    },
    "one compressed file": {"file": "out.csv", "format": "csv", "compression": "zstd"},
    "folders": {"path": "out", "partition_by": ("day",), "format": "jsonl"},
}


class Crash(BaseException):
    """The process is gone: nothing of it may catch this."""


class Bomb:
    """Counts steps, and crashes at one of them: before it is done, after, or in its middle."""

    def __init__(self, monkeypatch):
        self.count = 0
        self.at = None
        self.when = "before"
        for name in STEPS:
            monkeypatch.setattr(disk, name, self.wrapped(name, getattr(disk, name)))

    def wrapped(self, name, real):
        def step(*arguments):
            self.count += 1
            fires = self.at is not None and self.count >= self.at  # a dead process stays dead
            if fires and self.when == "before":
                raise Crash
            if fires and self.when == "half":
                half(name, real, arguments)
                raise Crash
            result = real(*arguments)
            if fires:
                raise Crash
            return result

        return step


def half(name, real, arguments):
    if name == "copy":
        source, target, size, at = arguments
        real(source, target, size // 2, at)
    elif name == "write":
        fd, buffers = arguments
        real(fd, [bytes(memoryview(b).cast("B"))[: len(b) // 2] for b in buffers])
    elif name == "write_at":
        fd, data, at = arguments
        real(fd, data[: len(data) // 2], at)


def transaction(number):
    return [
        [{"line": f"{number}.{slot}.{row}", "day": row % 2} for row in range(4)]
        for slot in range(2)
    ]


WANTED = sorted(row["line"] for n in (1, 2, 3) for slot in transaction(n) for row in slot)


def visible(tmp_path, target):
    """Every row that readers see, in order of files."""
    folder = tmp_path / "out" if "path" in target else tmp_path
    rows = []
    for path in folder.rglob("*") if folder.is_dir() else ():
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.is_file() and not hidden:
            rows += lines_of(path, target)
    return sorted(rows)


def lines_of(path, target):
    match target.get("format"):
        case "parquet":
            return pq.read_table(path, partitioning=None).column("line").to_pylist()
        case "avro":
            with path.open("rb") as file:
                return [row["line"] for row in fastavro.reader(file)]
    data = path.read_bytes()
    if target.get("compression") and data:
        try:
            data = pa.CompressedInputStream(pa.BufferReader(data), target["compression"]).read()
        except OSError:
            return []  # cut off in the middle of a commit: a reader waits, recovery mends it
    lines = data.decode().splitlines()
    match target.get("format"):
        case "jsonl":
            return [json.loads(line)["line"] for line in lines]
        case "csv":
            return [line.split(",")[0].strip('"') for line in lines[1:]]
    return lines


class Host:
    """What the host stores: the last prepared transaction, in one write with the offsets."""

    def __init__(self, start, target):
        self.start, self.target = start, target
        self.epoch = self.done = 0
        self.prepared = None

    def run(self, until):
        """Open the sink, recover, and write what is not written yet."""
        self.epoch += 1
        sink = self.start(epoch=self.epoch, **self.target)
        if self.prepared:
            sink.sink.commit(*self.prepared)
        sink.sink.sweep(self.done)
        for number in range(self.done + 1, until + 1):
            sink.txn = number
            staged = [sink.stage(b, slot=slot) for slot, b in enumerate(transaction(number))]
            state = sink.prepare(*staged)
            self.prepared, self.done = (number, self.epoch, state), number
            sink.sink.commit(number, self.epoch, state)
        return sink


@pytest.mark.parametrize("when", ["before", "half", "after"])
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_a_crash_at_any_step_loses_and_repeats_nothing(writer, tmp_path, monkeypatch, target, when):
    bomb = Bomb(monkeypatch)
    dry = Host(
        writer, {name: f"dry/{v}" if name in {"file", "path"} else v for name, v in target.items()}
    )
    dry.run(1)
    first = bomb.count
    dry.run(3)
    steps = bomb.count - first
    assert steps > 10
    wanted = WANTED
    for at in range(1, steps + 1):
        folder = tmp_path / f"{at}"
        folder.mkdir()
        here = {n: f"{at}/{v}" if n in {"file", "path"} else v for n, v in target.items()}
        host = Host(writer, here)
        host.run(1)
        bomb.count, bomb.at, bomb.when = 0, at, when
        with pytest.raises(Crash):
            host.run(3)
        bomb.at = None
        assert set(visible(folder, target)) <= set(wanted)
        host.run(3)
        assert visible(folder, target) == wanted, f"crash at step {at}"
        assert not list(folder.rglob("*.part"))


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_a_crash_in_a_recovery_is_recovered_from(writer, tmp_path, monkeypatch, target):
    bomb = Bomb(monkeypatch)
    wanted = WANTED
    for at in range(1, 12):
        folder = tmp_path / f"{at}"
        folder.mkdir()
        here = {n: f"{at}/{v}" if n in {"file", "path"} else v for n, v in target.items()}
        host = Host(writer, here)
        host.run(1)
        sink = writer(epoch=9, **here)
        sink.txn = 2
        state = sink.prepare(*(sink.stage(b, slot=s) for s, b in enumerate(transaction(2))))
        host.prepared, host.done, host.epoch = (2, 9, state), 2, 9
        for _ in range(3):
            bomb.count, bomb.at, bomb.when = 0, at, "half"
            with contextlib.suppress(Crash):
                host.run(2)
        bomb.at = None
        host.run(3)
        assert visible(folder, target) == wanted, f"crash at step {at}"


def appends_without_looking(write, place, roots, *, fsync):
    """A commit that does not look whether it was done already."""
    fd = disk.open_target(place.folder, write.target)
    at = os.fstat(fd).st_size
    for name, size in write.parts:
        if disk.exists(place.staging, name):
            source = os.open(name, os.O_RDONLY, dir_fd=place.staging)
            disk.copy(source, fd, size, at)
            os.close(source)
        at += size
    os.close(fd)
    for name, _ in write.parts:
        disk.unlink(place.staging, name)


def clears_first(write, place, roots, *, fsync):
    """A commit that removes the staged rows before the target has them."""
    data = []
    for name, _ in write.parts:
        source = os.open(name, os.O_RDONLY, dir_fd=place.staging)
        data.append(os.read(source, 1 << 20))
        os.close(source)
        disk.unlink(place.staging, name)
    fd = disk.open_target(place.folder, write.target)
    disk.write_at(fd, b"".join(data), os.fstat(fd).st_size)
    os.close(fd)


@pytest.mark.parametrize("broken", [appends_without_looking, clears_first])
def test_a_sink_that_is_broken_on_purpose_is_noticed(writer, tmp_path, monkeypatch, broken):
    """So the tests above can go red."""
    monkeypatch.setattr("penstock_builtin.file_sink.local.apply", broken)
    bomb = Bomb(monkeypatch)
    wanted = WANTED
    noticed = 0
    for at in range(1, 25):
        (tmp_path / f"{at}").mkdir()
        host = Host(writer, {"file": f"{at}/out.txt", "text_column": "line"})
        host.run(1)
        bomb.count, bomb.at, bomb.when = 0, at, "before"
        try:
            with contextlib.suppress(Crash):
                host.run(3)
            bomb.at = None
            host.run(3)
        except (FileNotFoundError, ConnectorError):
            bomb.at = None
            noticed += 1
        else:
            noticed += visible(tmp_path / f"{at}", host.target) != wanted
    assert noticed
