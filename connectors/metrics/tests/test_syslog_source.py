"""`syslog-source` and real senders: what arrives, what is a bad row, what is said of the rest."""

import json
import re
import socket
import ssl
import subprocess
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from penstock_connector import ConfigError
from penstock_connector._config import compatibility_keys, parse_config, read_config
from penstock_connector.testing import source_task
from penstock_kit.testing import wait_until
from penstock_metrics import SyslogSource
from support.certificates import Authority
from support.processes import PLAIN, free_ports
from system.pipelines import Pipeline

pytestmark = pytest.mark.timeout(300)

README = Path(__file__).parent.parent / "README.md"


@contextmanager
def listening(listener="UDP", **more):
    """A task, and a socket that leads to it."""
    (port,) = free_ports(1)
    config = {
        "syslog.port": str(port), "syslog.listener": listener,
        "syslog.listen.address": "127.0.0.1",
    }  # fmt: skip
    config |= {name.replace("_", "."): str(value) for name, value in more.items()}
    with source_task(SyslogSource, config) as task, connected(listener, port) as one:
        yield task, one


@contextmanager
def connected(listener, port):
    kind = socket.SOCK_DGRAM if listener == "UDP" else socket.SOCK_STREAM
    with socket.socket(socket.AF_INET, kind) as one:
        one.settimeout(10)
        wait_until(lambda: is_heard(one, port), 60, "the port")
        yield one


def is_heard(one, port):
    """Whether somebody listens; a datagram without a message tells it by an error of the next."""
    try:
        one.connect(("127.0.0.1", port))
        if one.type == socket.SOCK_DGRAM:
            one.send(b"\n")
            one.send(b"\n")
    except ConnectionError:
        return False
    return True


def log(one, *options, message="hello"):
    """Send a message as util-linux' `logger` does, to where a socket leads."""
    host, port = one.getpeername()
    subprocess.run(
        ["logger", "--server", host, "--port", str(port), *options, message],
        check=True, timeout=30, capture_output=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("listener", "options"),
    [("UDP", ["--udp"]), ("TCP", ["--tcp"]), ("TCP", ["--tcp", "--octet-count"])],
    ids=["udp", "lines", "octet-counting"],
)
def test_what_logger_sends_arrives(listener, options):
    with listening(listener) as (task, one):
        began = time.time()
        log(
            one, *options, "--rfc5424", "--priority", "local3.warning", "--tag", "backup",
            "--id=77", "--msgid", "DONE", "--sd-id", "a@1", "--sd-param", 'path="/x"',
            message="grün\tend",
        )  # fmt: skip
        (modern,) = task.rows(1)
        log(one, *options, "--rfc3164", "-p", "auth.err", "-t", "su", "--id=9", message="no: luck")
        (old,) = task.rows(1)
    assert (modern["facility"], modern["severity"], modern["format"]) == (19, 4, "rfc5424")
    assert (modern["app"], modern["procid"], modern["msgid"]) == ("backup", "77", "DONE")
    assert json.loads(modern["structured_data"])["a@1"] == {"path": "/x"}
    assert modern["message"] == "grün\tend"
    assert (old["facility"], old["severity"], old["format"]) == (4, 3, "rfc3164")
    assert (old["app"], old["procid"], old["message"]) == ("su", "9", "no: luck")
    for row in (modern, old):
        assert row["host"]
        assert row["source_address"] == "127.0.0.1"
        assert abs(row["received_at"].timestamp() - began) < 60
    assert abs(modern["timestamp"].timestamp() - began) < 60


def test_a_message_that_is_none_is_a_bad_row_and_the_others_arrive():
    with listening("TCP", syslog_message_max_bytes=480) as (task, one):
        one.sendall(b"<13>good: 1\nbroken\n<13>" + b"x" * 9000 + b"\n<13>fine: 2\n")
        found = [task.until("bad_row").bad_row for _ in range(2)]
    assert [bad.raw for bad in found] == [b"broken", b"<13>" + b"x" * 477]
    assert {bad.reason.code for bad in found} == {"syslog.bad_message"}
    with listening("TCP", syslog_message_max_bytes=480) as (task, one):
        one.sendall(b"<13>good: 1\nbroken\n<13>" + b"x" * 9000 + b"\n<13>fine: 2\n")
        assert [row["app"] for row in task.rows(2)] == ["good", "fine"]


def test_a_connection_that_ends_in_the_middle_gives_what_came():
    with listening("TCP") as (task, one):
        one.sendall(b"8 <13>a: 1<13>last: 2")
        one.shutdown(socket.SHUT_WR)
        assert {row["app"]: row["message"] for row in task.rows(2)} == {"a": "1", "last": "2"}
    with listening("TCP") as (task, one):
        one.sendall(b"99 <13>cut")
        one.shutdown(socket.SHUT_WR)
        bad = task.until("bad_row").bad_row
    assert (bad.raw, bad.reason.code) == (b"99 <13>cut", "syslog.bad_message")
    assert "ended in the middle" in bad.reason.message


def test_a_connection_without_counts_is_closed_where_counts_are_asked_for():
    with listening("TCP", syslog_framing="octet-counting") as (task, one):
        one.sendall(b"<13>a line\n")
        assert task.until("bad_row").bad_row.raw == b"<13>a line"
        assert one.recv(1) == b""


def test_too_many_connections_are_refused_with_a_word(caplog):
    with listening("TCP", max_connections=1) as (task, one):
        one.sendall(b"<13>a\n")
        task.rows(1)
        with socket.create_connection(one.getpeername(), 10) as other:
            assert other.recv(1) == b""
        one.sendall(b"<13>a\n")
        task.rows(1)
        wait_until(lambda: "[syslog.dropped]" in caplog.text, 60, "a word")
    assert "connections refused" in caplog.text


def test_datagrams_that_find_no_room_are_dropped_and_counted(caplog):
    (port,) = free_ports(1)
    config = {
        "syslog.port": str(port), "syslog.listen.address": "127.0.0.1", "queue.max.bytes": "64KiB",
    }  # fmt: skip
    with source_task(SyslogSource, config, batches=1) as task, connected("UDP", port) as one:
        one.send(b"<13>first")
        first = task.until("ready").ready
        for _ in range(400):
            one.send(b"<13>" + b"x" * 900)
        task.release(first.seq)
        second = task.until("ready").ready
        task.release(second.seq)
        wait_until(lambda: "[syslog.dropped]" in caplog.text, 60, "a word")
    assert "datagrams dropped" in caplog.text


def test_connections_wait_while_no_rows_are_taken_and_lose_nothing():
    (port,) = free_ports(1)
    config = {
        "syslog.port": str(port), "syslog.listen.address": "127.0.0.1", "syslog.listener": "TCP",
        "queue.max.bytes": "64KiB", "syslog.message.max.bytes": "1KiB",
    }  # fmt: skip
    text = "x" * 900
    with source_task(SyslogSource, config, batches=1) as task, connected("TCP", port) as one:
        one.settimeout(0.5)
        sent = 0
        try:
            for sent in range(100_000):
                one.sendall(f"<13>{text}{sent}\n".encode())
        except TimeoutError:
            pass  # half of the last one may have left
        assert sent < 99_999
        one.shutdown(socket.SHUT_WR)
        seen = []
        while len(seen) < sent:
            ready = task.until("ready").ready
            seen += [row["message"] for row in task.fetch(ready.seq).to_pylist()]
            task.release(ready.seq)
    assert seen[:sent] == [f"{text}{number}" for number in range(sent)]


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls"))


def tls_keys(authority, **more):
    certificate, private = authority.sign("localhost", address="127.0.0.1")
    return {
        "syslog_ssl_cert_chain_path": certificate, "syslog_ssl_key_path": private, **more,
    }  # fmt: skip


@contextmanager
def secured(place, authority, certificate=()):
    context = ssl.create_default_context(cafile=authority.ca)
    if certificate:
        context.load_cert_chain(*certificate)
    with (
        socket.create_connection(place, 10) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as wrapped,
    ):
        yield wrapped


def is_refused(place, authority):
    """Whether who sends without a certificate is closed; TLS 1.3 tells it after the handshake."""
    try:
        with secured(place, authority) as sender:
            sender.sendall(b"9 <13>a: no")
            return sender.recv(1) == b""
    except OSError:
        return True


def test_messages_come_by_tls(authority):
    many = b"".join(b"%d <13>n: %d" % (len(b"<13>n: %d" % n), n) for n in range(20_000))
    with (
        listening("TCPSSL", **tls_keys(authority)) as (task, one),
        secured(one.getpeername(), authority) as sender,
    ):
        sender.sendall(many)
        rows = task.rows(20_000)
    assert [row["message"] for row in rows] == [str(n) for n in range(20_000)]


def test_who_does_not_speak_tls_is_closed_with_a_word_and_the_others_are_heard(authority, caplog):
    with listening("TCPSSL", **tls_keys(authority)) as (task, one):
        place = one.getpeername()
        one.sendall(b"<13>plain text\n")
        wait_until(lambda: "[syslog.unsecured]" in caplog.text, 60, "a word")
        with secured(place, authority) as sender:
            sender.sendall(b"9 <13>a: hi")
            assert task.rows(1)[0]["message"] == "hi"


def test_a_sender_needs_a_certificate_where_one_is_asked_for(authority, caplog):
    keys = tls_keys(authority, syslog_ssl_client_ca_path=authority.ca)
    with listening("TCPSSL", **keys) as (task, one):
        place = one.getpeername()
        assert is_refused(place, authority)
        wait_until(lambda: "[syslog.unsecured]" in caplog.text, 60, "a word")
        with secured(place, authority, authority.sign("sender")) as sender:
            sender.sendall(b"9 <13>a: hi")
            assert task.rows(1)[0]["message"] == "hi"


def test_a_certificate_that_cannot_be_used_is_a_wrong_configuration(authority, tmp_path):
    (port,) = free_ports(1)
    given = {
        "syslog.port": str(port), "syslog.listener": "TCPSSL",
        "syslog.ssl.cert.chain.path": str(tmp_path / "none.pem"),
    }  # fmt: skip
    with pytest.raises(ConfigError, match=r"syslog\.tls.*syslog\.ssl\.cert\.chain\.path"):
        SyslogSource.check(parse_config(SyslogSource.config_type, given))
    certificate, private = authority.sign("localhost")
    given |= {
        "syslog.ssl.cert.chain.path": str(certificate), "syslog.ssl.key.path": str(private),
        "syslog.ssl.client.ca.path": str(private),
    }  # fmt: skip
    with pytest.raises(ConfigError, match=r"syslog\.tls.*syslog\.ssl\.client\.ca\.path"):
        SyslogSource.check(parse_config(SyslogSource.config_type, given))


def test_a_port_that_is_taken_is_a_wrong_configuration():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
        given = {"syslog.port": str(port), "syslog.listen.address": "127.0.0.1"}
        config = parse_config(SyslogSource.config_type, given)
        with pytest.raises(ConfigError, match=rf"syslog\.listen.*{port}"):
            SyslogSource.check(config)
    SyslogSource.check(config)


@pytest.mark.parametrize(
    ("keys", "wrong"),
    [
        ({"syslog.port": "0"}, "syslog.port"), ({"syslog.listener": "QUIC"}, "syslog.listener"),
        ({"syslog.listener": "TCPSSL"}, "syslog.ssl.cert.chain.path"),
        ({"max.connections": "0"}, "max.connections"),
        ({"queue.max.bytes": "1"}, "queue.max.bytes"),
        ({"syslog.message.max.bytes": "100"}, "syslog.message.max.bytes"),
        ({"syslog.timezone": "Mars"}, "syslog.timezone"),
        ({"syslog.timezone": "../x"}, "syslog.timezone"),
        ({"syslog.charset": "utf-16"}, "syslog.charset"),
        ({"syslog.charset": "none"}, "syslog.charset"),
        ({"syslog.framing": "tabs"}, "syslog.framing"),
        ({"reach.hosts": "a.example"}, "syslog.listen.address"),
        ({"syslog.reverse.dns.remote.ip": "true"}, "syslog.reverse.dns.remote.ip"),
        ({"syslog.ssl.self.signed.certificate.enable": "true"},
         "syslog.ssl.self.signed.certificate.enable"),
        ({"topic.prefix": "a"}, "topic.prefix"),
    ],
)  # fmt: skip
def test_a_key_that_cannot_mean_anything_is_refused(keys, wrong):
    _, errors = read_config(SyslogSource.config_type, {"syslog.port": "514"} | keys)
    assert [error.config_path for error in errors] == [wrong]


def test_a_configuration_of_confluents_connector_is_taken():
    given = {
        "syslog.port": "1514", "syslog.listener": "TCP", "syslog.listen.address": "0.0.0.0",
        "syslog.queue.batch.size": "100", "syslog.queue.max.size": "100",
        "syslog.write.timeout.millis": "10000", "syslog.backoff.millis": "50",
        "syslog.ssl.provider": "JDK", "syslog.reverse.dns.remote.ip": "false",
        "confluent.license": "", "netty.worker.threads": "3",
    }  # fmt: skip
    config = parse_config(SyslogSource.config_type, given)
    assert (config.syslog_port, config.syslog_listener) == (1514, "TCP")
    words = compatibility_keys(SyslogSource.config_type, given)
    assert {name for name, word in words.items() if word.why} == given.keys() - {
        "syslog.port", "syslog.listener", "syslog.listen.address", "syslog.reverse.dns.remote.ip",
    }  # fmt: skip


def test_keys_that_do_nothing_are_named():
    config = parse_config(
        SyslogSource.config_type,
        {"syslog.port": "1", "syslog.ssl.key.path": "/k", "syslog.framing": "newline"},
    )
    assert config.unused_keys().keys() == {"syslog.ssl.key.path", "syslog.framing"}


def test_the_example_of_the_readme_stores_what_logger_sends(tmp_path):
    """`penstock run syslog.yaml`."""
    text = README.read_text(encoding="utf-8")
    document = yaml.safe_load(
        re.search(r"## `syslog-source`.*?```yaml\n(.*?)```", text, re.DOTALL)[1]
    )
    (port,) = free_ports(1)
    document["source"] |= {"syslog.port": port, "syslog.listen.address": "127.0.0.1"}
    document["sink"]["path"] = str(tmp_path / "out")
    command = re.search(r"```bash tested-by=\S*test_syslog_source.py\n(logger .*?)\n", text)[1]
    sent = command.replace("514", str(port)).replace("logs.example", "127.0.0.1")
    with Pipeline(tmp_path / "run", document, module=PLAIN).running():
        with connected("TCP", port):
            pass
        subprocess.run(["bash", "-c", sent], check=True, timeout=30)
        wait_until(lambda: stored(tmp_path / "out"), 120, "the row")
    (row,) = stored(tmp_path / "out")
    assert (row["app"], row["severity"], row["message"]) == ("backup", 4, "disk is nearly full")
    came = datetime.fromisoformat(row["received_at"])
    assert abs((datetime.now(UTC) - came).total_seconds()) < 120


def stored(out):
    """The rows in the files that are written so far."""
    texts = [file.read_text(encoding="utf-8") for file in out.rglob("*.jsonl")]
    return [json.loads(line) for text in texts for line in text.splitlines()]
