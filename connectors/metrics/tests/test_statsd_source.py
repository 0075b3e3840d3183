"""`statsd-source`: what applications send, what it comes to, and what is said of the rest."""

import socket
from contextlib import contextmanager

import pytest

from penstock_connector import ConfigError
from penstock_connector._config import parse_config, read_config
from penstock_connector.testing import source_task
from penstock_kit.testing import wait_until
from penstock_metrics import StatsdSource
from support.processes import free_ports


@contextmanager
def listening(protocol="udp", **more):
    """A task, and a socket that leads to it."""
    (port,) = free_ports(1)
    config = {"listen.port": str(port), "protocol": protocol, "flush.interval": "300ms"}
    config |= {name.replace("_", "."): str(value) for name, value in more.items()}
    kind = socket.SOCK_DGRAM if protocol == "udp" else socket.SOCK_STREAM
    with source_task(StatsdSource, config) as task, socket.socket(socket.AF_INET, kind) as one:
        one.settimeout(10)
        wait_until(lambda: is_heard(one, port), 10, "the port")
        yield task, one


def is_heard(one, port):
    """Whether somebody listens; a datagram without a metric tells it by an error of the next."""
    try:
        one.connect(("127.0.0.1", port))
        one.send(b"\n")
        one.send(b"\n")
    except ConnectionError:
        return False
    return True


def shown(rows):
    return {(row["name"], tuple(row["labels"])): row["value"] for row in rows}


def test_an_interval_is_aggregated():
    sent = (
        "hits:2|c\nhits:3|c|@0.5\nhits:1|c|#zone:a,new\n"
        "heat:20|g\nheat:+5|g\nheat:-1.5|g\n"
        "who:anna|s\nwho:bert|s\nwho:anna|s\n"
        "took:10|ms\ntook:30|ms\ntook:20|ms|@0.5\n"
    )
    with listening(quantiles="0.5", labels="env=test") as (task, one):
        one.send(sent.encode())
        rows = task.rows(9)
    env = ("env", "test")
    assert shown(rows) == {
        ("hits", (env,)): 8,
        ("hits", (env, ("new", "true"), ("zone", "a"))): 1,
        ("heat", (env,)): 23.5,
        ("who", (env,)): 2,
        ("took_count", (env,)): 4,
        ("took_sum", (env,)): 80,
        ("took_min", (env,)): 10,
        ("took_max", (env,)): 30,
        ("took", (env, ("quantile", "0.5"))): 20,
    }
    assert {row["name"]: row["type"] for row in rows} == {
        "hits": "counter", "heat": "gauge", "who": "set", "took": "timer", "took_count": "timer",
        "took_sum": "timer", "took_min": "timer", "took_max": "timer",
    }  # fmt: skip


def test_a_gauge_keeps_its_value_and_a_counter_does_not():
    with listening() as (task, one):
        one.send(b"g:10|g\nc:10|c")
        first = task.rows(2)
        one.send(b"g:+1|g\nc:1|c")
        second = task.rows(2)
    assert list(shown(first).values()) == [10, 10]
    assert shown(second) == {("g", ()): 11, ("c", ()): 1}


@pytest.mark.parametrize("protocol", ["udp", "tcp"])
def test_metrics_come_as_they_are_sent(protocol):
    with listening(protocol, mode="raw") as (task, one):
        one.sendall(b"a.b-c/1:1|c|@0.1|#x.y:1\n9:2.5|h\nt:3|d|#a:b|c:box|T1656581400\n")
        rows = task.rows(3)
    assert [(r["name"], r["value"], r["type"]) for r in rows] == [
        ("a_b_c_1", 10, "counter"), ("_9", 2.5, "histogram"), ("t", 3, "distribution"),
    ]  # fmt: skip
    assert rows[0]["labels"] == [("x_y", "1")]
    assert rows[2]["timestamp"].timestamp() == 1656581400


def test_names_stay_where_they_are_not_for_prometheus():
    with listening(mode="raw", prometheus_names="false") as (task, one):
        one.send(b"a.b:1|c|#x.y:1")
        (row,) = task.rows(1)
    assert (row["name"], row["labels"]) == ("a.b", [("x.y", "1")])


@pytest.mark.parametrize(
    "line",
    [b"a", b"a:1", b"a:1|x", b":1|c", b"a:|c", b"a:b|c", b"a:1|c|@2", b"a:1|c|@0", b"\xff:1|c",
     b"a:1:2|c", b"a:1e|g", b"a:" + b"1" * 200 + b"|c", b"a:0x1|c", b"u:x|s", b"g:+1|g"],
)  # fmt: skip
def test_a_broken_metric_is_a_bad_row_and_the_others_are_read(line):
    with listening(mode="raw", max_line_bytes=100) as (task, one):
        one.send(b"good:1|c\n" + line + b"\nfine:2|c")
        bad = task.until("bad_row").bad_row
        assert (bad.raw, bad.reason.code) == (line, "statsd.bad_line")
        one.send(b"good:1|c\n" + line + b"\nfine:2|c")
        assert {row["name"] for row in task.rows(2)} == {"good", "fine"}


def test_bad_rows_of_an_interval_come_with_it():
    with listening() as (task, one):
        one.send(b"broken\ngood:1|c")
        assert task.until("bad_row").bad_row.raw == b"broken"
        assert shown(task.rows(1)) == {("good", ()): 1}


def test_a_line_of_tcp_may_come_in_pieces_and_end_with_the_connection():
    with listening("tcp", mode="raw", max_line_bytes=100) as (task, one):
        one.sendall(b"whole:1|c\npie")
        assert [row["name"] for row in task.rows(1)] == ["whole"]
        one.sendall(b"ces:2|c\nlast:3|c")
        one.shutdown(socket.SHUT_WR)
        assert {row["name"] for row in task.rows(2)} == {"pieces", "last"}


def test_an_endless_line_ends_its_connection_with_a_bad_row():
    with listening("tcp", mode="raw", max_line_bytes=100) as (task, one):
        one.sendall(b"x" * 300)
        assert task.until("bad_row").bad_row.reason.code == "statsd.bad_line"
        assert one.recv(1) == b""


def test_too_many_connections_are_refused_with_a_word(caplog):
    with listening("tcp", max_connections=1) as (task, one):
        one.sendall(b"a:1|c\n")
        place = one.getpeername()
        task.rows(1)
        with socket.create_connection(place, 10) as other:
            assert other.recv(1) == b""
        one.sendall(b"a:1|c\n")
        task.rows(1)
        assert "connections refused" in caplog.text


def test_what_finds_no_room_is_dropped_and_counted(caplog):
    (port,) = free_ports(1)
    config = {"listen.port": str(port), "mode": "raw", "queue.max.bytes": "64KiB"}
    with (
        source_task(StatsdSource, config, batches=1) as task,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one,
    ):
        wait_until(lambda: is_heard(one, port), 10, "the port")
        one.send(b"first:1|c")
        first = task.until("ready").ready
        for _ in range(400):
            one.send(b"more:1|c\n" * 100)
        task.release(first.seq)
        second = task.until("ready").ready
        task.release(second.seq)
        wait_until(lambda: "[statsd.dropped]" in caplog.text, 20, "a word")
    assert "datagrams dropped" in caplog.text


def test_series_beyond_the_most_are_dropped_and_counted(caplog):
    with listening(max_series=3) as (task, one):
        one.send("\n".join(f"s{n}:1|c" for n in range(10)).encode())
        assert len(task.rows(3)) == 3
        one.send(b"again:1|c")
        assert shown(task.rows(1)) == {("again", ()): 1}
    assert "7 more metrics dropped" in caplog.text


def test_a_port_that_is_taken_is_a_wrong_configuration():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
        config = parse_config(StatsdSource.config_type, {"listen.port": str(port)})
        with pytest.raises(ConfigError, match=rf"statsd\.listen.*{port}"):
            StatsdSource.check(config)
    StatsdSource.check(config)


@pytest.mark.parametrize(
    ("keys", "wrong"),
    [
        ({"listen.port": "70000"}, "listen.port"), ({"protocol": "unix"}, "protocol"),
        ({"flush.interval": "0s"}, "flush.interval"), ({"quantiles": "2"}, "quantiles"),
        ({"quantiles": "half"}, "quantiles"), ({"queue.max.bytes": "1KiB"}, "queue.max.bytes"),
        ({"labels": "a"}, "labels"), ({"max.connections": "0"}, "max.connections"),
        ({"reach.hosts": "a.example"}, "listen.host"),
    ],
)  # fmt: skip
def test_a_key_that_cannot_mean_anything_is_refused(keys, wrong):
    _, errors = read_config(StatsdSource.config_type, keys)
    assert [error.config_path for error in errors] == [wrong]
