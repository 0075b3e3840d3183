"""Files of a real SFTP server (asyncssh's), read as those of this machine are."""

import gzip
import itertools
import os
import time

import asyncssh
import pytest

from penstock_builtin.sftp_source import SftpSource, SftpSourceConfig
from penstock_connector import AuthError, ConfigError, OffsetLostError, Partition, RetriableError
from penstock_connector.testing import source_task, validate
from support.sftp import PASSWORD, Server


@pytest.fixture
def server(tmp_path):
    (tmp_path / "root").mkdir()
    server = Server(tmp_path / "root")
    server.start()
    yield server
    server.end()


@pytest.fixture
def sftp(server, reading):
    def start(*paths, offsets=None, tasks=1, **config):
        made = SftpSourceConfig(**server.keys(path=paths, **config))
        return reading(made, offsets, tasks, SftpSource)

    return start


MOMENTS = itertools.count(1_700_000_000)
"""Times of files: a server tells seconds, and a test makes many files in one."""


def put(server, name, data):
    path = server.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    moment = next(MOMENTS)
    os.utime(path, (moment, moment))
    return path


def add(path, data):
    with path.open("ab") as file:
        file.write(data)


def test_files_folders_and_patterns_are_read(server, sftp):
    for name in ("a/x.log", "a/y.txt", "a/deep/z.log", "a/.hidden", "b/x.log"):
        put(server, name, f"{name}\n".encode())
    for paths, config, wanted in [
        (("/a/x.log",), {}, ["a/x.log"]),
        (("/a",), {}, ["a/x.log", "a/y.txt"]),
        (("/a/",), {"recursive": True}, ["a/deep/z.log", "a/x.log", "a/y.txt"]),
        (("/*/x.log",), {}, ["a/x.log", "b/x.log"]),
        (("/**/*.log",), {}, ["a/deep/z.log", "a/x.log", "b/x.log"]),
        (("/a",), {"names_regex": r"y\..*"}, ["a/y.txt"]),
        (("/a/x.log", "/b"), {}, ["a/x.log", "b/x.log"]),
    ]:
        reader = sftp(*paths, tail=False, **config)
        assert sorted(row["line"] for row in reader.drain()) == wanted
        assert reader.source.finished()


def test_appended_rows_and_new_files_are_found_and_a_partial_line_waits(server, sftp):
    path = put(server, "in/a.log", b"1\npart")
    reader = sftp("/in/*.log")
    reader.until(lambda: reader.lines == ["1"])
    add(path, b"ial\n3\n")
    put(server, "in/b.log", b"new\n")
    reader.until(lambda: len(reader.rows) == 4)
    assert sorted(reader.lines) == ["1", "3", "new", "partial"]
    assert sftp("/in/*.log", offsets=reader.offsets).drain() == []


@pytest.mark.parametrize("kind", ["plain", "gz"])
def test_a_file_is_gone_on_with_from_every_offset(server, sftp, kind):
    text = b"".join(b"line %d\n" % n for n in range(300))
    put(server, f"a.{kind}", gzip.compress(text) if kind == "gz" else text)
    config = {"tail": False, "block_bytes": 500}
    whole = sftp(f"/a.{kind}", **config)
    checkpoints = []
    while whole.step() is not None:
        checkpoints.append((len(whole.rows), dict(whole.offsets)))
    assert len(whole.rows) == 300
    for seen, offsets in checkpoints[::2]:
        again = sftp(f"/a.{kind}", **config, offsets=offsets)
        again.drain()
        assert again.lines == whole.lines[seen:]


@pytest.mark.parametrize("pattern", ["/app.log", "/app.log*"])
def test_a_rotated_file_is_read_to_its_end_before_the_new_one(server, sftp, pattern):
    path = put(server, "app.log", b"1\n")
    reader = sftp(pattern)
    reader.until(lambda: reader.lines == ["1"])
    add(path, b"2\nno newline" if pattern == "/app.log" else b"2\n")
    path.rename(server.root / "app.log.1")
    put(server, "app.log", b"3\n")
    wanted = ["1", "2", "no newline", "3"] if pattern == "/app.log" else ["1", "2", "3"]
    reader.until(lambda: len(reader.rows) >= len(wanted))
    end = time.monotonic() + 0.3
    reader.until(lambda: time.monotonic() > end)
    assert sorted(reader.lines) == sorted(wanted)


def test_a_file_that_was_rotated_while_nobody_read_is_not_read_twice(server, sftp):
    path = put(server, "app.log", b"1\n2\n")
    first = sftp("/app.log*")
    first.until(lambda: len(first.rows) == 2)
    add(path, b"3\n")
    path.rename(server.root / "app.log.1")
    put(server, "app.log", b"other\n")
    reader = sftp("/app.log*", offsets=first.offsets)
    reader.until(lambda: len(reader.rows) == 2)
    assert sorted(reader.lines) == ["3", "other"]


@pytest.mark.parametrize("data", [b"3\n", b"3\n4\n5\n6\n"])
@pytest.mark.parametrize("truncated", ["restart", "fail"])
def test_a_file_that_was_cut_or_rewritten_begins_anew_or_fails(server, sftp, data, truncated):
    path = put(server, "a", b"1\n2\n")
    reader = sftp("/a", truncated=truncated)
    reader.until(lambda: len(reader.rows) == 2)
    path.write_bytes(data)
    if truncated == "restart":
        reader.until(lambda: reader.lines == ["1", "2", *data.decode().split()])
    else:
        with pytest.raises(OffsetLostError) as caught:
            reader.until(lambda: False)
        assert caught.value.code == "file.truncated"


@pytest.mark.parametrize("name", ["a'b\".log", "a\nb.log", "100%.log", "ä {x}.log"])
def test_names_may_have_any_characters(server, sftp, name):
    put(server, f"in/{name}", b"1\n")
    assert sftp("/in", tail=False).drain() == [{"line": "1"}]


def test_a_link_to_a_file_is_read_and_one_to_a_folder_is_not_walked(server, sftp):
    put(server, "in/a.log", b"1\n")
    (server.root / "in" / "b.log").symlink_to("a.log")
    (server.root / "in" / "loop").symlink_to(".")
    (server.root / "in" / "dead.log").symlink_to("nowhere")
    reader = sftp("/in", tail=False, recursive=True)
    assert reader.drain() == [{"line": "1"}, {"line": "1"}]


@pytest.mark.parametrize("how", ["key", "file", "passphrase"])
def test_keys_log_in_as_text_and_as_files(server, tmp_path, how):
    phrase = "open" if how == "passphrase" else None
    text = server.client_key.export_private_key("pkcs8-pem", phrase).decode()
    (tmp_path / "id").write_text(text)
    known = tmp_path / "known"
    known.write_text(f"[127.0.0.1]:{server.port} {server.public}\n")
    keys = {"sftp_key_file": str(tmp_path / "id")} if how == "file" else {"sftp_key": text}
    more = {"sftp_password": "", "sftp_host_key": (), "sftp_known_hosts": str(known), **keys}
    if phrase:
        more["sftp_key_passphrase"] = phrase
    SftpSource.check(SftpSourceConfig(**server.keys(path=("/",), **more)))


def test_a_server_with_another_key_is_not_talked_to(server):
    other = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode().strip()
    with pytest.raises(AuthError) as caught:
        SftpSource.check(SftpSourceConfig(**server.keys(path=("/",), sftp_host_key=(other,))))
    assert caught.value.code == "sftp.host_key"


def test_a_wrong_password_is_told_and_not_printed(server):
    wrong = server.keys(path=("/",), sftp_password="not this secret")
    with pytest.raises(AuthError) as caught:
        SftpSource.check(SftpSourceConfig(**wrong))
    assert caught.value.code == "sftp.denied"
    assert "not this secret" not in str(caught.value) + repr(SftpSourceConfig(**wrong))


@pytest.mark.parametrize(
    "change", [{"sftp_key": "nonsense"}, {"sftp_key_file": "/nowhere"}, {"sftp_host_key": ("x",)},
               {"sftp_known_hosts": "/nowhere"}],
)  # fmt: skip
def test_keys_that_cannot_be_read_are_told(server, change):
    with pytest.raises(ConfigError) as caught:
        SftpSource.check(SftpSourceConfig(**server.keys(path=("/",), **change)))
    assert caught.value.code == "sftp.key"
    assert caught.value.config_path.replace(".", "_") in change


def test_a_file_that_is_not_there_is_waited_for_and_one_that_went_is_told(server, sftp):
    reader = sftp("/later")
    assert reader.drain() == []
    put(server, "later", b"x\n")
    reader.until(lambda: reader.lines == ["x"])
    (server.root / "later").unlink()
    SftpSource.check(reader.source.config)
    (offset,) = [o for o in reader.offsets.values() if "position" in o]
    source = SftpSource()
    source.init(SftpSourceConfig(**server.keys(path=("/later",), tail=False)))
    source.connect([Partition({"file": server.url("/later")}, offset=offset)])
    with pytest.raises(OffsetLostError) as caught:
        source.read_batch()
    source.close()
    assert caught.value.code == "file.vanished"


def test_a_lost_connection_is_retried_from_the_offsets(server, sftp):
    path = put(server, "a", b"1\n")
    reader = sftp("/a")
    reader.until(lambda: reader.lines == ["1"])
    server.stop()
    with pytest.raises(RetriableError) as caught:
        reader.until(lambda: False)
    assert caught.value.code == "sftp.unreachable"
    server.start()
    add(path, b"2\n")
    again = sftp("/a", offsets=reader.offsets)
    again.until(lambda: again.lines == ["2"])


def test_it_reads_over_the_wire(server):
    put(server, "a.csv", b"id,text\n1,x\n2,y\n")
    config = {
        "path": "/a.csv", "format": "csv", "tail": "false", "sftp.host": "127.0.0.1",
        "sftp.port": str(server.port), "sftp.user": "reader", "sftp.password": PASSWORD,
        "sftp.host.key": server.public,
    }  # fmt: skip
    with source_task(SftpSource, config) as task:
        assert task.all_rows() == [{"id": 1, "text": "x"}, {"id": 2, "text": "y"}]


@pytest.mark.parametrize(
    ("change", "codes"),
    [
        ({}, []),
        ({"sftp.host": ""}, ["config.missing"]),
        ({"sftp.password": ""}, ["config.missing"]),
        ({"sftp.host.key": ""}, ["config.missing"]),
        ({"sftp.port": "0"}, ["config.invalid_value"]),
        ({"path": "relative"}, ["config.invalid_value"]),
        ({"format": "csv", "csv.header": "false"}, ["config.missing"]),
    ],
)
def test_configurations_are_checked(change, codes):
    config = {
        "path": "/a", "sftp.host": "h", "sftp.user": "u", "sftp.password": "p",
        "sftp.host.key": "ssh-ed25519 AAAA", **change,
    }  # fmt: skip
    assert validate(SftpSource, config) == codes
