"""Brokers that refuse, hang, restart and have no room; real ones."""

import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock_amqp import ActivemqSink, ActivemqSource, connection
from penstock_connector.testing import RemoteError, sink_task, source_task
from support.activemq import PASSWORD, ActivemqBroker

PLAIN = {"value.converter.schemas.enable": "false"}


def keys(broker, queue, **more):
    """Keys of a connector, `_` for `.` in their names."""
    given = {name.replace("_", "."): value for name, value in more.items()}
    return {**broker.login, "jms.destination.name": queue, **PLAIN, **given}


def read(config, count):
    with source_task(ActivemqSource, config) as task:
        rows = task.rows(count)
        task.until("checkpoint")
        task.commit()
        task.drain()
    return rows


def write(config, *rows):
    with sink_task(ActivemqSink, config) as task:
        task.write(list(rows))


@pytest.fixture(params=["classic", "artemis"])
def own(request, tmp_path):
    """A broker of its own, which a test may kill."""
    with ActivemqBroker(request.param, tmp_path) as broker:
        yield broker


def test_a_wrong_password_is_told_and_not_shown(broker, queue):
    for kind in (ActivemqSink, ActivemqSource):
        config = keys(broker, queue, activemq_password="not-the-one")
        with pytest.raises(RemoteError, match=r"activemq\.login") as caught:
            write(config, {"n": 1}) if kind is ActivemqSink else read(config, 1)
        assert "not-the-one" not in str(caught.value)


def test_tls_needs_the_certificate_of_the_broker(broker, queue):
    config = keys(broker, queue, activemq_url=broker.tls_url)
    with pytest.raises(RemoteError, match=r"activemq\.tls"):
        write(config, {"n": 1})
    config["tls.ca"] = str(broker.ca)
    rows = [{"n": n, "text": "x" * 500} for n in range(2000)]
    write(config, *rows)
    assert [row["n"] for row in read(config, 2000)] == list(range(2000))


def test_a_file_that_has_no_certificates_is_told(classic, queue, tmp_path):
    config = keys(classic, queue, activemq_url=classic.tls_url, tls_ca=str(tmp_path / "none.pem"))
    with pytest.raises(RemoteError, match=r"activemq\.tls_file"):
        write(config, {"n": 1})


def test_the_port_of_openwire_is_told(classic, queue):
    with pytest.raises(RemoteError, match=r"activemq\.not_stomp.*OpenWire"):
        write(keys(classic, queue, activemq_url=classic.openwire_url), {"n": 1})


def test_a_port_of_openwire_that_hangs_up_before_it_greets_is_told():
    """Classic may: a frame of STOMP is a giant to it."""
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as threads:

        def serve():
            first, _ = server.accept()
            with first:
                first.recv(1)
            second, _ = server.accept()
            with second:
                second.sendall(b"\0\0\1\0\1ActiveMQ")

        served = threads.submit(serve)
        url = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        config = {"activemq.url": url, "jms.destination.name": "q", **PLAIN}
        with pytest.raises(RemoteError, match=r"activemq\.not_stomp.*OpenWire"):
            write(config, {"n": 1})
        served.result(30)


def test_the_port_for_all_protocols_of_artemis_is_taken(artemis, queue):
    config = keys(artemis, queue, activemq_url=artemis.openwire_url)
    write(config, {"n": 1})
    assert artemis.rest(queue) == [b'{"n":1}']


def test_the_next_broker_of_failover_is_taken(classic, queue):
    url = f"failover:(tcp://127.0.0.1:1,{classic.url})?randomize=false"
    write(keys(classic, queue, activemq_url=url), {"n": 1})
    assert classic.rest(queue) == [b'{"n":1}']
    with pytest.raises(RemoteError, match=r"activemq\.unavailable"):
        write(keys(classic, queue, activemq_url="failover:(tcp://127.0.0.1:1,tcp://127.0.0.1:2)"))


def test_a_wrong_selector_is_told(broker, queue):
    with (
        source_task(ActivemqSource, keys(broker, queue, jms_message_selector="a = = b")) as task,
        pytest.raises(RemoteError, match=r"activemq\.selector"),
    ):
        task.rows(1)


def test_rows_stay_at_a_broker_that_is_killed_before_their_commit(own, queue):
    own.send(queue, *[b'{"n": %d}' % n for n in range(300)])
    with source_task(ActivemqSource, keys(own, queue)) as task:
        assert len(task.rows(100)) >= 100
        own.kill()
        with pytest.raises(RemoteError, match=r"activemq\.unavailable"):
            task.until("drained")
    own.start()
    found = {row["n"] for row in read(keys(own, queue, batch_size="300"), 300)}
    assert found == set(range(300))
    assert own.rest(queue) == []


def test_a_password_that_changed_is_told_when_the_broker_is_back(own, queue):
    own.send(queue, b'{"n": 1}')
    own.kill()
    own.start("another-secret")
    with pytest.raises(RemoteError, match=r"activemq\.login"):
        read(keys(own, queue), 1)
    own.kill()
    own.start(PASSWORD)
    assert [row["n"] for row in read(keys(own, queue), 1)] == [1]


def test_a_transaction_that_was_not_answered_is_written_again(own, queue):
    config = keys(own, queue, request_timeout="4s")
    with sink_task(ActivemqSink, config) as task:
        task.write([{"n": 1}])
        own.freeze()
        with pytest.raises(RemoteError, match=r"activemq\.no_answer"):
            task.write([{"n": 2}])
    with pytest.raises(RemoteError, match=r"activemq\.no_answer"):
        write(config, {"n": 3})
    own.thaw()
    write(keys(own, queue), {"n": 2})
    assert {b'{"n":1}', b'{"n":2}'} <= set(own.rest(queue))


def test_a_broker_that_hangs_is_noticed_by_its_silence(own, queue, monkeypatch):
    monkeypatch.setattr(connection, "HEART_BEAT_S", 0.2)
    monkeypatch.setattr(connection, "SILENT_S", 1.0)
    own.send(queue, b'{"n": 1}')
    with source_task(ActivemqSource, keys(own, queue)) as task:
        assert [row["n"] for row in task.rows(1)] == [1]
        own.freeze()
        with pytest.raises(RemoteError, match=r"activemq\.no_answer"):
            task.until("drained")
        own.thaw()
    assert [row["n"] for row in read(keys(own, queue), 1)] == [1]


def fill(config, rows):
    """Write rows again and again until the queue is full; return how often they were written."""
    for times in range(50):
        try:
            write(config, *rows)
        except RemoteError as error:
            assert "[activemq.refused]" in str(error), error  # noqa: PT017 - Artemis says no more
            return times
    raise AssertionError("the queue is never full")


def test_a_full_queue_is_told_and_has_no_half_of_a_transaction(artemis, queue):
    full = f"full.{queue}"
    config = keys(artemis, full)
    rows = [{"n": n, "text": "x" * 100} for n in range(20)]
    times = fill(config, rows)
    assert times
    assert len(read(config, 20 * times)) == 20 * times
    write(config, *rows)
    assert len(artemis.rest(full)) == 20
