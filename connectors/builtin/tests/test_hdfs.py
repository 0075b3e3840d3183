"""Files of a real HDFS, read and written: what is appended and what is new is found, files get
their names at the commit and not before, and a crash at any step loses and repeats nothing.
"""

import contextlib
import gzip
import itertools
import json
import os
import socket
import sys

import pytest

from penstock_builtin.file_sink import FileSink, FileSinkConfig, hadoop
from penstock_builtin.file_source import FileSource, FileSourceConfig
from penstock_builtin.places import hdfs_session
from penstock_builtin.places.hdfs_keys import HdfsUrl
from penstock_builtin.places.hdfs_session import HdfsSession
from penstock_connector import AuthError, ConfigError, ConnectorError, RetriableError
from penstock_connector._config import read_config
from penstock_connector.connection import Retry
from penstock_connector.testing import sink_task, source_task
from support.hdfs import USER, HdfsServer

FOLDERS = itertools.count()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with HdfsServer(tmp_path_factory.mktemp("hdfs")) as server:
        yield server


@pytest.fixture
def folder():
    return f"/test-{next(FOLDERS)}"


class Cluster:
    """What the tests themselves do, as the user who owns everything."""

    def __init__(self, server):
        keys = FileSinkConfig(path=f"{server.url}/x", hdfs_user=USER)
        self.session = HdfsSession(keys, HdfsUrl.parse(keys.path))
        self.client = self.session.client

    def put(self, path, data, *, append=False):
        def write():
            if append:
                writer = self.client.append(path)
            else:
                with contextlib.suppress(FileNotFoundError):
                    self.client.delete(path)
                writer = self.client.create(path)
            writer.write(data)
            writer.close()

        self.session.once(write, path)

    def rename(self, path, other):
        self.session.once(lambda: self.client.rename(path, other), path)

    def files(self, folder):
        def listed():
            return [s.path for s in self.client.list_status(folder, True) if not s.isdir]

        return sorted(self.session.once(listed, folder))

    def read(self, path):
        def read():
            reader = self.client.read(path)
            return reader.read_range(0, len(reader))

        return self.session.once(read, path)

    def visible(self, folder):
        """Rows of JSON lines that readers see, and the names of their files."""
        names = [name for name in self.files(folder) if "/.penstock/" not in name]
        lines = [line for name in names for line in self.read(name).decode().splitlines()]
        return [json.loads(line) for line in lines], names


@pytest.fixture
def cluster(server):
    made = Cluster(server)
    yield made
    made.session.close()


@pytest.fixture
def hdfs_read(reading, server, folder):
    def start(begin="/", offsets=None, **config):
        named = (f"{server.url}{folder}{begin}",)
        keys = {"path": named, "list_interval": 0.05, "hdfs_user": USER, **config}
        return reading(FileSourceConfig(**keys), offsets)

    return start


@pytest.fixture
def hdfs_writer(writing, server, folder):
    def start(task="g-0", epoch=1, **config):
        keys = {"path": f"{server.url}{folder}", "format": "jsonl", "hdfs_user": USER, **config}
        return writing(FileSinkConfig(**keys), task, epoch)

    return start


@pytest.fixture
def impatient(monkeypatch):
    """Calls are given up soon."""
    monkeypatch.setattr(hdfs_session, "_CALL_WITHIN", 1.0)
    monkeypatch.setattr(hdfs_session, "_RETRY", Retry(2, 0.01))


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


def test_files_of_a_folder_are_read_new_ones_are_found_and_none_is_read_twice(
    hdfs_read, cluster, folder
):
    cluster.put(f"{folder}/a.txt", b"1\n2\n")
    cluster.put(f"{folder}/b.txt.gz", gzip.compress(b"3\n"))
    cluster.put(f"{folder}/_SUCCESS", b"hidden\n")
    cluster.put(f"{folder}/deep/c.txt", b"deep\n")
    reader = hdfs_read()
    reader.until(lambda: len(reader.rows) == 3)
    assert sorted(reader.lines) == ["1", "2", "3"]
    cluster.put(f"{folder}/d.txt", b"4\n")
    reader.until(lambda: len(reader.rows) == 4)
    again = hdfs_read(offsets=reader.offsets)
    assert again.drain() == []


@pytest.mark.parametrize(
    ("begin", "more", "found"),
    [
        ("/", {"recursive": True}, {"a", "b", "c"}),
        ("/*.log", {}, {"a"}),
        ("/{b,nothing}.txt", {}, {"b"}),
        ("/d*", {}, {"c"}),
        ("/a.log", {}, {"a"}),
        ("/", {"names_regex": r".*\.txt"}, {"b"}),
        ("/nothing", {}, set()),
    ],
)
def test_files_are_meant_by_name_folder_and_pattern(hdfs_read, cluster, folder, begin, more, found):
    for name in ("a.log", "b.txt", "deep/c.txt", ".hidden/x", "deep/_tmp/y"):
        cluster.put(f"{folder}/{name}", f"{name.split('/')[-1][0]}\n".encode())
    reader = hdfs_read(begin, tail=False, **more)
    assert {row["line"] for row in reader.drain()} == found


def test_what_is_appended_is_read_once_its_line_is_whole(hdfs_read, cluster, folder):
    cluster.put(f"{folder}/a.log", b"1\n2")
    reader = hdfs_read()
    reader.until(lambda: reader.lines == ["1"])
    cluster.put(f"{folder}/a.log", b"2\n3\n", append=True)
    reader.until(lambda: len(reader.rows) == 3)
    assert reader.lines == ["1", "22", "3"]
    cluster.put(f"{folder}/a.log", b"4\n", append=True)
    again = hdfs_read(offsets=reader.offsets)
    again.until(lambda: again.lines == ["4"])


def test_a_file_that_was_renamed_is_not_read_twice(hdfs_read, cluster, folder):
    cluster.put(f"{folder}/a.log", b"1\n2\n")
    reader = hdfs_read()
    reader.until(lambda: len(reader.rows) == 2)
    cluster.rename(f"{folder}/a.log", f"{folder}/a.log.1")
    cluster.put(f"{folder}/a.log", b"3\n")
    reader.until(lambda: len(reader.rows) == 3)
    assert reader.lines == ["1", "2", "3"]
    assert hdfs_read(offsets=reader.offsets).drain() == []


def test_a_file_that_was_replaced_is_another_one(hdfs_read, cluster, folder):
    cluster.put(f"{folder}/a", b"1\n2\n")
    reader = hdfs_read()
    reader.until(lambda: len(reader.rows) == 2)
    cluster.put(f"{folder}/a", b"9\n8\n7\n")
    reader.until(lambda: reader.lines == ["1", "2", "9", "8", "7"])


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "avro"])
def test_a_file_is_gone_on_with_from_every_offset(hdfs_read, hdfs_writer, kind):
    rows = [{"n": n, "text": f"{n:0100}"} for n in range(300)]
    hdfs_writer(format=kind, compression="none").write(rows)
    config = {"tail": False, "format": kind, "block_bytes": 3000}
    whole = hdfs_read(**config)
    checkpoints = []
    while whole.step() is not None:
        checkpoints.append((len(whole.rows), dict(whole.offsets)))
    assert whole.rows == rows
    for seen, offsets in checkpoints[::5]:
        assert hdfs_read(**config, offsets=offsets).drain() == rows[seen:]


def test_a_large_file_is_read_in_ranges(hdfs_read, cluster, folder):
    big = b"".join(b"%09d\n" % n for n in range(300_000))
    cluster.put(f"{folder}/a", big)
    reader = hdfs_read(tail=False, block_bytes=1 << 20)
    reader.drain()
    assert len(reader.rows) == 300_000
    assert (reader.lines[0], reader.lines[-1]) == ("000000000", "000299999")


# ── writing ──────────────────────────────────────────────────────────────────────────────────────


def test_rows_get_their_names_at_the_commit_and_are_in_order(hdfs_writer, cluster, folder):
    writer = hdfs_writer(rotate_rows=2)
    writer.begin()
    staged = [writer.stage([{"n": n} for n in range(5)]), writer.stage([{"n": 5}], slot=1)]
    writer.stage([{"n": 99}], attempt=1)
    state = writer.prepare(*staged)
    assert cluster.visible(folder) == ([], [])
    writer.sink.commit(1, 1, state)
    rows, names = cluster.visible(folder)
    assert rows == [{"n": n} for n in range(6)]
    assert len(names) == 4
    writer.sink.commit(1, 1, state)
    assert cluster.visible(folder) == (rows, names)


def test_a_cluster_has_folders_by_field_and_topic(hdfs_writer, server, cluster, folder):
    writer = hdfs_writer(path=f"{server.url}{folder}/${{topic}}/x", partition_by=("land",))
    writer.write([{"land": "de", "n": 1}, {"land": "fr/a", "n": 2}], dataset="orders")
    _, names = cluster.visible(folder)
    assert [name.rpartition("/")[0] for name in names] == [
        f"{folder}/orders/x/land=de",
        f"{folder}/orders/x/land=fr%2Fa",
    ]


def test_a_discarded_attempt_leaves_nothing(hdfs_writer, cluster, folder):
    writer = hdfs_writer(rotate_rows=1)
    writer.begin()
    staging = writer.stage([{"n": 1}, {"n": 2}])
    staging.discard()
    assert cluster.files(folder) == []


def test_a_state_that_is_too_large_is_kept_in_the_cluster(
    hdfs_writer, cluster, folder, monkeypatch
):
    monkeypatch.setattr(hadoop, "INLINE_MOST", 100)
    writer = hdfs_writer(rotate_rows=1)
    writer.begin()
    state = writer.prepare(writer.stage([{"n": n} for n in range(3)]))
    assert len(state) < 100
    writer.sink.commit(1, 1, state)
    assert len(cluster.visible(folder)[0]) == 3
    writer.sink.commit(1, 1, state)
    assert [name for name in cluster.files(folder) if ".penstock" in name] == []


class Crash(Exception):  # noqa: N818
    pass


def test_a_crash_between_any_two_steps_loses_and_repeats_nothing(
    writing, server, cluster, monkeypatch
):
    plain = HdfsSession.once
    for crash in itertools.count():
        folder = f"/crash-{next(FOLDERS)}"
        config = FileSinkConfig(
            path=f"{server.url}{folder}", format="jsonl", rotate_rows=1, hdfs_user=USER
        )
        writer = writing(config)
        steps = itertools.count()

        def once(self, call, path, *more, steps=steps, crash=crash):
            if next(steps) == crash:
                raise Crash
            return plain(self, call, path, *more)

        monkeypatch.setattr(HdfsSession, "once", once)
        crashed = False
        try:
            writer.write([{"n": 1}, {"n": 2}])
        except Crash:
            crashed = True
        monkeypatch.setattr(HdfsSession, "once", plain)
        writer.sink.close()
        life = writing(config, "g-0", 2)
        if writer.prepared:
            life.sink.commit(*writer.prepared)
        life.sink.sweep(1)
        if not writer.prepared:
            life.write([{"n": 1}, {"n": 2}])
        assert cluster.visible(folder)[0] == [{"n": 1}, {"n": 2}]
        assert [name for name in cluster.files(folder) if ".penstock" in name] == []
        life.sink.close()
        if not crashed:
            break
    assert crash > 8  # two files: created, written, synced, closed; a folder, two names


def test_staged_rows_that_someone_removed_are_told(hdfs_writer, cluster, folder):
    writer = hdfs_writer()
    writer.begin()
    state = writer.prepare(writer.stage([{"n": 1}]))
    for name in cluster.files(folder):
        cluster.session.once(lambda name=name: cluster.client.delete(name), name)
    with pytest.raises(ConnectorError) as caught:
        writer.sink.commit(1, 1, state)
    assert caught.value.code == "hdfs.staged_lost"


def test_nothing_is_overwritten(hdfs_writer, cluster, folder, impatient):
    writer = hdfs_writer()
    writer.begin()
    state = writer.prepare(writer.stage([{"n": 1}]))
    ((_, final),) = json.loads(state)["moves"]
    cluster.put(final, b"theirs")
    with pytest.raises(RetriableError) as caught:
        writer.sink.commit(1, 1, state)
    assert caught.value.code == "hdfs.name_taken"
    assert cluster.read(final) == b"theirs"


def test_a_cluster_that_was_restarted_in_the_middle_is_gone_on_with(
    hdfs_writer, hdfs_read, server, cluster, folder
):
    writer = hdfs_writer()
    writer.write([{"n": 1}])
    reader = hdfs_read(format="jsonl", recursive=True)
    reader.until(lambda: reader.rows == [{"n": 1}])
    writer.begin()
    state = writer.prepare(writer.stage([{"n": 2}]))
    server.kill()
    server.start()
    writer.sink.commit(2, 1, state)
    writer.write([{"n": 3}])
    reader.until(lambda: len(reader.rows) == 3)
    assert reader.rows == [{"n": 1}, {"n": 2}, {"n": 3}]


def test_a_cluster_that_hangs_is_given_up(hdfs_writer, server, impatient):
    writer = hdfs_writer()
    writer.begin()
    state = writer.prepare(writer.stage([{"n": 1}]))
    server.pause()
    try:
        with pytest.raises(RetriableError) as caught:
            writer.sink.commit(1, 1, state)
    finally:
        server.resume()
    assert caught.value.code == "hdfs.unreachable"
    writer.sink.commit(1, 1, state)


# ── reaching it ──────────────────────────────────────────────────────────────────────────────────


def test_checks_tell_a_wrong_address_and_rights(server, impatient):
    FileSink.check(FileSinkConfig(path=f"{server.url}/checked", hdfs_user=USER))
    FileSource.check(FileSourceConfig(path=(f"{server.url}/checked",), hdfs_user=USER))
    with pytest.raises(AuthError) as caught:
        FileSink.check(FileSinkConfig(path=f"{server.url}/denied", hdfs_user="mallory"))
    assert caught.value.code == "hdfs.denied"
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        path = f"hdfs://127.0.0.1:{closed.getsockname()[1]}/x"
        with pytest.raises(RetriableError) as caught:
            FileSink.check(FileSinkConfig(path=path))
    assert caught.value.code == "hdfs.unreachable"


def test_the_active_one_of_the_name_nodes_of_a_service_is_found(
    writing, server, cluster, folder, tmp_path
):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        nodes = (f"127.0.0.1:{closed.getsockname()[1]}", f"127.0.0.1:{server.port}")
        keys = {"path": f"hdfs://mesh{folder}", "format": "jsonl", "hdfs_user": USER}
        writing(FileSinkConfig(**keys, hdfs_namenodes=nodes)).write([{"n": 1}])
        site = "".join(
            f"<property><name>{name}</name><value>{value}</value></property>"
            for name, value in {
                "dfs.ha.namenodes.mesh": "a,b",
                "dfs.namenode.rpc-address.mesh.a": nodes[0],
                "dfs.namenode.rpc-address.mesh.b": nodes[1],
            }.items()
        )
        (tmp_path / "hdfs-site.xml").write_text(f"<configuration>{site}</configuration>")
        writing(FileSinkConfig(**keys, hadoop_conf_dir=str(tmp_path)), "g-1").write([{"n": 2}])
    assert cluster.visible(folder)[0] == [{"n": 1}, {"n": 2}]


def test_kerberos_and_broken_settings_are_refused_by_name(tmp_path):
    def opened(text):
        (tmp_path / "core-site.xml").write_text(text)
        config = FileSinkConfig(path="hdfs://mesh/x", hadoop_conf_dir=str(tmp_path))
        with pytest.raises(ConfigError) as caught:
            FileSink.check(config)
        return caught.value.code

    name = "hadoop.security.authentication"
    kerberos = f"<property><name>{name}</name><value>kerberos</value></property>"
    assert opened(f"<configuration>{kerberos}</configuration>") == "hdfs.kerberos"
    assert opened("<configuration>") == "hdfs.bad_settings"
    (tmp_path / "core-site.xml").unlink()
    with pytest.raises(ConfigError) as caught:
        FileSink.check(FileSinkConfig(path="hdfs://mesh/x", hadoop_conf_dir=str(tmp_path)))
    assert caught.value.code == "hdfs.bad_settings"


def test_two_users_at_once_are_refused_and_one_after_the_other_is_not(
    hdfs_writer, server, monkeypatch
):
    monkeypatch.delenv("HADOOP_USER_NAME", raising=False)
    writer = hdfs_writer()
    with pytest.raises(ConfigError) as caught:
        FileSink.check(FileSinkConfig(path=f"{server.url}/x", hdfs_user="other"))
    assert caught.value.code == "hdfs.other_user"
    writer.sink.close()
    assert "HADOOP_USER_NAME" not in os.environ


def test_a_library_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    with pytest.raises(ConfigError) as caught:
        FileSink.check(FileSinkConfig(path="hdfs://127.0.0.1:1/x"))
    assert (caught.value.code, caught.value.fix) == (
        "hdfs.not_installed",
        "Install it on all workers: pip install 'penstock[hdfs]'.",
    )


@pytest.mark.parametrize(
    ("config", "code", "where"),
    [
        ({"path": "hdfs:///x"}, "config.invalid_value", "path"),
        ({"path": "hdfs://u@nn:1/x"}, "config.invalid_value", "path"),
        ({"path": "hdfs://nn:port/x"}, "config.invalid_value", "path"),
        ({"path": "hdfs://nn/a/../b"}, "config.invalid_value", "path"),
        ({"file": "hdfs://nn/a"}, "config.contradiction", "file"),
        ({"path": "hdfs://nn/a", "allowed_roots": ("/x",)}, "config.contradiction",
         "allowed.roots"),
        ({"path": "hdfs://nn:1/a", "hdfs_namenodes": ("x:1",)}, "config.contradiction",
         "hdfs.namenodes"),
        ({"path": "hdfs://nn/a", "hdfs_namenodes": ("x",)}, "config.invalid_value",
         "hdfs.namenodes"),
        ({"path": "/x", "hdfs_user": "u"}, "config.contradiction", "hdfs.user"),
        ({"path": "webhdfs://nn/a"}, "config.invalid_value", "path"),
    ],
)  # fmt: skip
def test_a_sink_refuses_what_means_nothing(config, code, where):
    with pytest.raises(ConfigError) as caught:
        FileSinkConfig(**config)
    assert (caught.value.code, caught.value.config_path) == (code, where)


@pytest.mark.parametrize(
    ("paths", "code"),
    [
        (("hdfs://nn/a", "/b"), "config.contradiction"),
        (("hdfs://nn/a", "s3://b/c"), "config.contradiction"),
        (("hdfs://nn/a", "hdfs://mm/a"), "config.contradiction"),
    ],
)
def test_a_source_refuses_what_means_nothing(paths, code):
    with pytest.raises(ConfigError) as caught:
        FileSourceConfig(path=paths)
    assert caught.value.code == code
    with pytest.raises(ConfigError) as caught:
        FileSource.check(FileSourceConfig(path=("hdfs://nn/**/x",)))
    assert caught.value.code == "config.invalid_value"


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({}, []),
        ({"reach.hosts": "other"}, [("reach.host", "path")]),
        ({"path": "hdfs://nn:9000/else/x"}, [("reach.folder", "path")]),
        ({"hadoop.conf.dir": "/etc"}, [("reach.folder", "hadoop.conf.dir")]),
        ({"path": "hdfs://mesh/data/x", "hdfs.namenodes": "nn:1,evil:1"}, [("reach.host", "path")]),
    ],
)
@pytest.mark.parametrize("kind", [FileSinkConfig, FileSourceConfig])
def test_a_node_lets_reach_its_name_nodes_and_folders_alone(kind, changed, found):
    given = {
        "path": "hdfs://nn:9000/data/x",
        "reach.folders": "hdfs://nn:9000/data,hdfs://mesh/data",
        "reach.hosts": "nn",
        **changed,
    }
    _, errors = read_config(kind, given)
    assert [(error.code, error.config_path) for error in errors] == found


def test_both_ends_over_the_wire(server, cluster, folder):
    out = {"path": f"{server.url}{folder}", "format": "jsonl", "hdfs.user": USER}
    with sink_task(FileSink, out, epoch=1) as task:
        task.write([{"n": 1}])
        txn = task.next_txn()
        task.put([{"n": 2}], txn_id=txn)
        task.prepare(txn, [(0, 0, 1)])
    with sink_task(FileSink, out, epoch=2, last_prepared=task.last_prepared, recover=True) as again:
        again.write([{"n": 3}])
        again.close()
    assert cluster.visible(folder)[0] == [{"n": 1}, {"n": 2}, {"n": 3}]
    with source_task(FileSource, {**out, "tail": "false"}) as reading:
        assert sorted(row["n"] for row in reading.all_rows()) == [1, 2, 3]
