"""Objects of a real S3-compatible store, read and written: new ones are found, uploads become
visible at the commit and nothing before, and a crash at any step loses and repeats nothing.
"""

import contextlib
import gzip
import itertools
import json
import socket

import pytest

from penstock_builtin.file_sink import FileSink, FileSinkConfig, objects
from penstock_builtin.file_source import FileSource, FileSourceConfig
from penstock_builtin.places import s3_store
from penstock_builtin.places.s3_keys import S3Url
from penstock_builtin.places.s3_store import S3Store
from penstock_connector import AuthError, ConfigError, ConnectorError, Partition, RetriableError
from penstock_connector.testing import sink_task, source_monitor, source_task
from support.s3 import ACCESS, SECRET, S3Server

PREFIXES = itertools.count()
BUCKET = "topics"


@pytest.fixture(scope="module")
def server():
    with S3Server() as server:
        yield server


@pytest.fixture
def keys(server):
    return {
        "s3_endpoint": server.endpoint,
        "s3_access_key": ACCESS,
        "s3_secret_key": SECRET,
    }


@pytest.fixture
def store(keys):
    made = S3Store(
        S3Url("s3", BUCKET, ""), FileSinkConfig(path=f"s3://{BUCKET}/", **keys).access("s3://")
    )
    yield made
    made.close()


@pytest.fixture
def prefix():
    return f"test-{next(PREFIXES)}"


@pytest.fixture
def s3_read(reading, keys, prefix):
    def start(begin="", offsets=None, tasks=1, **config):
        named = (f"s3://{BUCKET}/{prefix}/{begin}",)
        made = FileSourceConfig(**{"path": named, "list_interval": 0.05, **keys, **config})
        return reading(made, offsets, tasks)

    return start


@pytest.fixture
def s3_writer(writing, keys, prefix):
    def start(**config):
        task, epoch = config.pop("task", "g-0"), config.pop("epoch", 1)
        made = FileSinkConfig(**{"path": f"s3://{BUCKET}/{prefix}", **keys, **config})
        return writing(made, task, epoch)

    return start


def visible(store, prefix):
    """Rows of JSON lines that readers see, and the keys they are in."""
    found = {s.key: store.read(s.key).decode() for s in store.listed(f"{prefix}/")}
    found = {key: text for key, text in found.items() if "/.penstock/" not in key}
    rows = [json.loads(line) for key in sorted(found) for line in found[key].splitlines()]
    return rows, sorted(found)


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


def test_objects_are_read_new_ones_are_found_and_none_is_read_twice(s3_read, store, prefix):
    store.put(f"{prefix}/a.txt", b"1\n2")
    store.put(f"{prefix}/deep/b.txt.gz", gzip.compress(b"3\n"))
    reader = s3_read()
    reader.until(lambda: len(reader.rows) == 3)
    assert sorted(reader.lines) == ["1", "2", "3"]  # an object is whole: its last line is a row
    store.put(f"{prefix}/c.txt", b"4\n")
    reader.until(lambda: len(reader.rows) == 4)
    again = s3_read(offsets=reader.offsets)
    assert again.drain() == []
    assert {p.key.get("file") for p in again.partitions} >= {f"s3://{BUCKET}/{prefix}/c.txt"}


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "avro"])
def test_an_object_is_gone_on_with_from_every_offset(s3_read, s3_writer, kind, prefix):
    rows = [{"n": n, "text": f"{n:0100}"} for n in range(300)]
    s3_writer(format=kind, compression="none").write(rows)
    config = {"tail": False, "format": kind, "block_bytes": 3000}
    whole = s3_read(**config)
    checkpoints = []
    while whole.step() is not None:
        checkpoints.append((len(whole.rows), dict(whole.offsets)))
    assert whole.rows == rows
    assert whole.source.finished()
    for seen, offsets in checkpoints[::3]:
        assert s3_read(**config, offsets=offsets).drain() == rows[seen:]


def test_names_are_chosen_and_may_have_any_characters(s3_read, store, prefix):
    names = ["a b.log", "ü%41.log", "q'uo\"te.log", "plus+&=?#.log", "x.txt", "folder/"]
    for name in names:
        store.put(f"{prefix}/{name}", f"{name}\n".encode())
    reader = s3_read(tail=False, names_regex=r".*\.log")
    assert sorted(row["line"] for row in reader.drain()) == sorted(names[:4])


@pytest.mark.parametrize("truncated", ["restart", "fail"])
def test_an_object_that_was_replaced_begins_anew_or_fails(s3_read, store, prefix, truncated):
    store.put(f"{prefix}/a", b"1\n2\n")
    reader = s3_read(truncated=truncated)
    reader.until(lambda: len(reader.rows) == 2)
    store.put(f"{prefix}/a", b"3\n")
    if truncated == "restart":
        reader.until(lambda: reader.lines == ["1", "2", "3"])
    else:
        with pytest.raises(ConnectorError, match="rewritten") as caught:
            reader.until(lambda: False)
        assert caught.value.code == "file.truncated"


def test_an_object_that_is_replaced_while_it_is_read_is_read_again(s3_read, store, prefix):
    big = b"".join(b"%07d\n" % n for n in range(1_500_000))
    store.put(f"{prefix}/a", big)
    reader = s3_read(block_bytes=1 << 20)
    reader.step()
    store.put(f"{prefix}/a", b"new\n")
    with pytest.raises(RetriableError) as caught:
        reader.until(lambda: False)
    assert caught.value.code == "s3.changed"
    again = s3_read(offsets=reader.offsets)
    again.until(lambda: again.lines == ["new"])


def test_an_object_that_is_removed_while_it_is_read_is_told(s3_read, store, prefix):
    store.put(f"{prefix}/a", b"".join(b"%07d\n" % n for n in range(1_500_000)))
    reader = s3_read(block_bytes=1 << 20)
    reader.step()
    store.delete(f"{prefix}/a")
    with pytest.raises(RetriableError) as caught:
        reader.until(lambda: False)
    assert caught.value.code == "s3.changed"
    assert s3_read(offsets=reader.offsets).drain() == []


def test_large_reads_are_asked_for_in_parts(s3_read, s3_writer, monkeypatch):
    monkeypatch.setattr("penstock_builtin.places.s3._ASK_MOST", 1000)
    monkeypatch.setattr("penstock_builtin.places.s3._AHEAD", 10)
    rows = [{"n": n, "text": f"{n * 7919:050}"} for n in range(500)]
    s3_writer(format="parquet", compression="none").write(rows)
    assert s3_read(tail=False, format="parquet").drain() == rows


def test_a_prefix_may_end_within_a_name(s3_read, store, prefix):
    for name in ("2026-01/a", "2026-02/a", "2025-12/a", "2026"):
        store.put(f"{prefix}/{name}", f"{name}\n".encode())
    read = s3_read("2026-", tail=False).drain()
    assert sorted(row["line"] for row in read) == ["2026-01/a", "2026-02/a"]


def test_more_objects_than_a_page_are_listed(store, prefix, monkeypatch):
    monkeypatch.setattr(s3_store, "_PAGE", 3)
    for n in range(10):
        store.put(f"{prefix}/{n}", b"x")
    assert [s.key for s in store.listed(f"{prefix}/")] == [f"{prefix}/{n}" for n in range(10)]


def test_several_tasks_get_an_object_each(keys, store, prefix):
    for n in range(3):
        store.put(f"{prefix}/{n}", b"x\n")
    config = FileSourceConfig(path=(f"s3://{BUCKET}/{prefix}/",), **keys)
    planned = [dict(p.key) for p in FileSource.plan(config, 3, [])]
    assert planned == [{"file": f"s3://{BUCKET}/{prefix}/{n}"} for n in range(3)]
    assert FileSource.monitored(config, 3)
    assert not FileSource.monitored(config, 1)


def test_a_monitor_asks_for_a_plan_when_there_are_new_objects(server, store, prefix):
    store.put(f"{prefix}/a", b"x\n")
    config = {
        "s3.endpoint": server.endpoint, "s3.access.key": ACCESS, "s3.secret.key": SECRET,
        "path": f"s3://{BUCKET}/{prefix}/", "list.interval": "50ms",
    }  # fmt: skip
    planned = [Partition({"file": f"s3://{BUCKET}/{prefix}/a"})]
    with source_monitor(FileSource, config, planned) as task:
        with pytest.raises(TimeoutError):
            task.replan(timeout=0.5)
        store.put(f"{prefix}/b", b"x\n")
        new = f"s3://{BUCKET}/{prefix}/b"
        assert task.replan() == f"1 files appeared, {new} is one of them"


# ── writing ──────────────────────────────────────────────────────────────────────────────────────


def test_rows_are_visible_at_the_commit_and_nothing_before(s3_writer, store, prefix):
    sink = s3_writer(format="jsonl", partition_by=("k",), partition_keep=True)
    sink.begin()
    rows = [{"k": "a b/ü", "v": n} for n in range(3)]
    state = sink.prepare(sink.stage(rows[:2], slot=0), sink.stage(rows[2:], slot=1))
    assert visible(store, prefix) == ([], [])
    sink.sink.commit(sink.txn, 1, state)
    found, names = visible(store, prefix)
    assert found == rows
    assert all(name.startswith(f"{prefix}/k=a b%2Fü/part-g-0-0000000001-") for name in names)
    sink.sink.commit(sink.txn, 1, state)  # a commit that comes again adds nothing
    assert visible(store, prefix) == (found, names)


def test_large_objects_are_sent_in_parts(s3_writer, store, prefix):
    sink = s3_writer(format="jsonl")
    rows = [{"n": n, "text": "x" * 10_000} for n in range(1300)]
    sink.write(rows)
    found, names = visible(store, prefix)
    assert found == rows
    assert len(names) == 1


def test_objects_have_the_size_and_the_rows_asked_for(s3_writer, store, prefix):
    rows = [{"n": n} for n in range(10)]
    s3_writer(format="jsonl", rotate_rows=4, compression="none").write(rows)
    found, names = visible(store, prefix)
    assert (found, len(names)) == (rows, 3)


def test_an_attempt_that_does_not_count_leaves_nothing(s3_writer, store, prefix):
    sink = s3_writer(format="jsonl")
    sink.begin()
    first, second = sink.stage([{"n": 1}]), sink.stage([{"n": 1}], attempt=1)
    state = sink.prepare(second)
    first.discard()
    sink.sink.commit(sink.txn, 1, state)
    assert visible(store, prefix)[0] == [{"n": 1}]
    assert list(store.unfinished(f"{prefix}/")) == []


def test_a_new_life_forgets_what_the_old_one_left_but_not_what_newer_ones_do(
    s3_writer, store, prefix
):
    for epoch, task in ((1, "g-0"), (3, "g-0"), (1, "g-1")):
        old = s3_writer(format="jsonl", epoch=epoch, task=task)
        old.begin()
        old.stage([{"n": 1}])
    assert len(list(store.unfinished(f"{prefix}/"))) == 3
    s3_writer(format="jsonl", epoch=2).sink.sweep(0)
    assert len(list(store.unfinished(f"{prefix}/"))) == 2
    s3_writer(format="jsonl", epoch=4).sink.sweep(0)
    assert [u.key.split("/")[1][:8] for u in store.unfinished(f"{prefix}/")] == ["part-g-1"]


def test_a_state_that_is_too_large_is_kept_in_the_store(s3_writer, store, prefix, monkeypatch):
    monkeypatch.setattr(objects, "INLINE_MOST", 100)
    sink = s3_writer(format="jsonl")
    sink.begin()
    state = sink.prepare(sink.stage([{"n": 1}]))
    assert len(state) < 200
    sink.sink.commit(sink.txn, 1, state)
    sink.sink.commit(sink.txn, 1, state)
    assert visible(store, prefix)[0] == [{"n": 1}]
    assert [s.key for s in store.listed(f"{prefix}/") if "/.penstock/" in s.key] == []


def test_an_upload_that_the_store_lost_is_told(s3_writer, store, prefix):
    sink = s3_writer(format="jsonl")
    sink.begin()
    state = sink.prepare(sink.stage([{"n": 1}]))
    for found in store.unfinished(f"{prefix}/"):
        store.abort(found.key, found.upload)
    with pytest.raises(ConnectorError) as caught:
        sink.sink.commit(sink.txn, 1, state)
    assert caught.value.code == "s3.upload_lost"


# ── crashes ──────────────────────────────────────────────────────────────────────────────────────

STEPS = ("begin", "put_part", "complete", "abort", "put", "delete")


class Crash(BaseException):
    """The process is gone."""


class Bomb:
    """Counts requests that change something, and crashes at one: before it was sent, or after."""

    def __init__(self, monkeypatch):
        self.count, self.at, self.after = 0, None, False
        for name in STEPS:
            monkeypatch.setattr(S3Store, name, self.wrapped(getattr(S3Store, name)))

    def wrapped(self, real):
        def step(*arguments):
            self.count += 1
            fires = self.at is not None and self.count >= self.at
            if fires and not self.after:
                raise Crash
            result = real(*arguments)
            if fires:
                raise Crash
            return result

        return step


class Host:
    """What the host stores: the last prepared transaction, in one write with the offsets."""

    def __init__(self, start, **config):
        self.start, self.config = start, config
        self.epoch = self.done = 0
        self.prepared = None

    def run(self, until):
        self.epoch += 1
        sink = self.start(epoch=self.epoch, format="jsonl", **self.config)
        if self.prepared:
            sink.sink.commit(*self.prepared)
        sink.sink.sweep(self.done)
        for number in range(self.done + 1, until + 1):
            sink.txn = number
            staged = [sink.stage(rows, slot=slot) for slot, rows in enumerate(transaction(number))]
            state = sink.prepare(*staged)
            self.prepared, self.done = (number, self.epoch, state), number
            sink.sink.commit(number, self.epoch, state)


def transaction(number):
    return [[{"n": f"{number}.{slot}.{row}"} for row in range(2)] for slot in range(2)]


WANTED = sorted(r["n"] for number in (1, 2) for rows in transaction(number) for r in rows)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("inline", [48 << 10, 10])
def test_a_crash_at_any_step_loses_and_repeats_nothing(
    s3_writer, store, prefix, monkeypatch, after, inline
):
    monkeypatch.setattr(objects, "INLINE_MOST", inline)
    bomb = Bomb(monkeypatch)
    Host(s3_writer, path=f"s3://{BUCKET}/{prefix}-dry").run(2)
    steps = bomb.count
    assert steps >= 12
    for at in range(1, steps + 1):
        here = f"{prefix}/{at}"
        host = Host(s3_writer, path=f"s3://{BUCKET}/{here}")
        bomb.count, bomb.at, bomb.after = 0, at, after
        with contextlib.suppress(Crash):
            host.run(2)
        bomb.at = None
        assert {row["n"] for row in visible(store, here)[0]} <= set(WANTED)
        host.run(2)
        assert sorted(row["n"] for row in visible(store, here)[0]) == WANTED, f"step {at}"
        assert list(store.unfinished(f"{here}/")) == []
        assert [s.key for s in store.listed(here) if "/.penstock/" in s.key] == []


def test_a_commit_that_is_broken_on_purpose_is_noticed(s3_writer, store, prefix, monkeypatch):
    """So the test above can go red."""

    def writes_instead(target, key, upload, tags):
        target._store.put(f"{key}-{id(object())}-{next(PREFIXES)}", b'{"n": "1.0.0"}\n')

    monkeypatch.setattr(objects.ObjectTarget, "_end", writes_instead)
    host = Host(s3_writer)
    host.run(1)
    host.run(2)
    assert sorted(row["n"] for row in visible(store, prefix)[0]) != WANTED


# ── what goes wrong ──────────────────────────────────────────────────────────────────────────────


def test_what_people_get_wrong_is_told_before_the_start(keys):
    wrong = [
        ({"s3_secret_key": "not it"}, f"s3://{BUCKET}/x", AuthError, "s3.denied"),
        ({}, "s3://nobodys-bucket/x", (ConfigError, AuthError), None),
    ]
    for change, path, kind, code in wrong:
        for connector, config in (
            (FileSink, FileSinkConfig(path=path, **{**keys, **change})),
            (FileSource, FileSourceConfig(path=(path,), **{**keys, **change})),
        ):
            with pytest.raises(kind) as caught:
                connector.check(config)
            assert code in {None, caught.value.code}
            assert SECRET not in str(caught.value)
    FileSink.check(FileSinkConfig(path=f"s3://{BUCKET}/x", **keys))
    FileSource.check(FileSourceConfig(path=(f"s3://{BUCKET}/x",), **keys))


def test_a_store_that_is_not_there_is_tried_again_and_then_told(keys, monkeypatch):
    monkeypatch.setattr(s3_store, "_WITHIN", 0.5)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{free.getsockname()[1]}"
        config = FileSourceConfig(path=(f"s3://{BUCKET}/",), **{**keys, "s3_endpoint": endpoint})
        with pytest.raises(RetriableError) as caught:
            FileSource.check(config)
    assert caught.value.code == "s3.unreachable"


def test_the_variables_of_the_process_are_keys_too(server, monkeypatch):
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    FileSource.check(FileSourceConfig(path=(f"s3://{BUCKET}/x",)))


def test_both_ends_over_the_wire(server, store, prefix):
    common = {
        "s3.endpoint": server.endpoint, "s3.access.key": ACCESS, "s3.secret.key": SECRET,
        "format": "jsonl",
    }  # fmt: skip
    out = {**common, "path": f"s3://{BUCKET}/{prefix}"}
    with sink_task(FileSink, out, epoch=1) as task:
        task.write([{"n": 1}])
        txn = task.next_txn()
        task.put([{"n": 2}], txn_id=txn)
        task.prepare(txn, [(0, 0, 1)])
    with sink_task(FileSink, out, epoch=2, last_prepared=task.last_prepared, recover=True) as again:
        again.write([{"n": 3}])
        again.close()
    assert visible(store, prefix)[0] == [{"n": 1}, {"n": 2}, {"n": 3}]
    with source_task(FileSource, {**out, "tail": "false"}) as reading:
        assert sorted(row["n"] for row in reading.all_rows()) == [1, 2, 3]
