"""Name servers and brokers that are away, slow, wrong, or another program: what becomes of it."""

import ssl
from contextlib import ExitStack

import pytest
from penstock_rocketmq import (
    RocketmqSink,
    RocketmqSource,
    fetcher,
    rocketmq_sink,
    sender,
)
from penstock_rocketmq import cluster as of_cluster
from penstock_rocketmq.frames import Answer, Request
from penstock_rocketmq.storage import decode_batch

from penstock_connector.testing import RemoteError, plan, sink_task, source_task
from support.certificates import Authority
from support.processes import free_ports
from support.rocketmq_peer import Answered, Peer, route, stored

PLAIN = {"value.converter.schemas.enable": "false"}


def name_server(peers, queues=1):
    """Return a handler of a name server that knows one topic, at the last of the peers."""

    def handle(code, fields, body):
        assert code == Request.GET_ROUTEINFO_BY_TOPIC
        return route(peers[-1].address, queues)

    return handle


class Queue:
    """A handler of a broker with one queue of numbers."""

    def __init__(self, count):
        self.high = count

    def __call__(self, code, fields, body):
        match code:
            case Request.GET_MIN_OFFSET:
                return Answered(offset=0)
            case Request.GET_MAX_OFFSET:
                return Answered(offset=self.high)
            case Request.PULL_MESSAGE:
                return self.pull(int(fields["queueOffset"]), int(fields["maxMsgNums"]))

    def pull(self, begin, count):
        if begin >= self.high:
            return None  # it waits
        end = min(begin + count, self.high)
        body = b"".join(stored(b'{"n": %d}' % at, offset=at) for at in range(begin, end))
        return Answered(0, body, nextBeginOffset=end, minOffset=0, maxOffset=self.high)


@pytest.fixture
def cluster():
    """Begin a name server and a broker with a handler; return the name server's address."""
    with ExitStack() as peers:

        def begin(handler, **more):
            begin.broker = peers.enter_context(Peer(handler))
            return peers.enter_context(Peer(name_server([begin.broker], **more))).address

        yield begin


def source(address, **more):
    return {"namesrv.addr": address, "topics": "t", **PLAIN, **more}


def read(address, count, **more):
    with source_task(RocketmqSource, source(address, **more)) as task:
        return [row["n"] for row in task.rows(count)]


def test_a_name_server_that_is_away_is_passed_over(cluster):
    (closed,) = free_ports(1)
    address = f"127.0.0.1:{closed};{cluster(Queue(3))}"
    assert read(address, 3) == [0, 1, 2]


def test_a_name_server_that_says_nothing_is_passed_over(cluster, monkeypatch):
    monkeypatch.setattr(of_cluster, "NAMESRV_TIMEOUT_S", 0.2)
    with Peer(lambda *_: None) as silent:
        assert read(f"{silent.address},{cluster(Queue(3))}", 3) == [0, 1, 2]
        with pytest.raises(RemoteError, match=r"rocketmq\.unavailable.*route of t.*no answer"):
            plan(RocketmqSource, source(silent.address))


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x7f\xff\xff\xff" + b"a frame of two gigabytes",
        Answered(body=b"<html>"),
        Answered(body=b'{"brokerDatas": 7, "queueDatas": 7}'),
    ],
)
def test_a_name_server_that_is_none_is_told_by_its_code(said):
    with Peer(lambda *_: said) as peer, pytest.raises(RemoteError, match=r"rocketmq\.protocol"):
        plan(RocketmqSource, source(peer.address))


@pytest.mark.parametrize(
    "said",
    [
        b"\x00\x00\x00\x02",
        Answered(0, b"no messages", nextBeginOffset=5, minOffset=0, maxOffset=9),
        Answered(0, stored(b"x"), nextBeginOffset=0, minOffset=0, maxOffset=9),
        Answered(0, stored(b"x")),
    ],
)
def test_a_broker_that_sends_something_else_is_told_by_its_code(cluster, said):
    class Wrong(Queue):
        def pull(self, begin, count):
            return said

    with pytest.raises(RemoteError, match=r"rocketmq\.protocol"):
        read(cluster(Wrong(5)), 1)


def test_no_broker_is_met_that_the_node_does_not_allow(cluster):
    bounded = {"reach.hosts": "localhost", "reach.folders": "/data"}
    address = cluster(Queue(3)).replace("127.0.0.1", "localhost")
    with pytest.raises(RemoteError, match=r"reach\.host.*127\.0\.0\.1 is not among"):
        read(address, 1, **bounded)


def test_messages_are_read_once_over_connections_that_break(cluster, monkeypatch):
    monkeypatch.setattr(fetcher, "_RETRY_S", 0.01)

    class Breaking(Queue):
        pulls = 0

        def pull(self, begin, count):
            self.pulls += 1
            if self.pulls % 7 == 0:
                raise ConnectionError
            return super().pull(begin, count)

    broker = Breaking(1000)
    assert read(cluster(broker), 1000) == list(range(1000))
    assert broker.pulls > 30


def test_a_broker_that_stays_away_fails_the_task(cluster, monkeypatch):
    monkeypatch.setattr(fetcher, "GIVE_UP_S", 0.3)
    monkeypatch.setattr(fetcher, "_RETRY_S", 0.05)

    class Away(Queue):
        def pull(self, begin, count):
            raise ConnectionError

    with pytest.raises(RemoteError, match=r"rocketmq\.unavailable.*was closed"):
        read(cluster(Away(3)), 1)


def test_a_broker_that_answers_no_pull_is_away(cluster, monkeypatch):
    for name, value in {"GIVE_UP_S": 0.1, "SUSPEND_S": 0.1, "REQUEST_TIMEOUT_S": 0.1}.items():
        monkeypatch.setattr(fetcher, name, value)

    class Frozen(Queue):
        def pull(self, begin, count):
            return None

    with pytest.raises(RemoteError, match=r"rocketmq\.unavailable.*no answer to a pull of t"):
        read(cluster(Frozen(3)), 1)


@pytest.mark.parametrize("returns", [True, False])
def test_a_task_waits_for_a_broker_that_is_away_when_it_begins(monkeypatch, returns):
    monkeypatch.setattr(of_cluster, "AWAY_TIMEOUT_S", 60 if returns else 0.3)
    asked = []
    with Peer(Queue(3)) as broker:

        def name_server(code, fields, body):
            asked.append(code)
            if len(asked) == 1 or (returns and len(asked) > 4):  # the plan, and later on
                return route(broker.address)
            return Answered(Answer.TOPIC_NOT_EXIST)

        with Peer(name_server) as peer:
            if returns:
                assert read(peer.address, 3) == [0, 1, 2]
            else:
                with pytest.raises(RemoteError, match=r"rocketmq\.no_master.*no master of b"):
                    read(peer.address, 3)


class Store:
    """A handler of a broker that keeps what is sent; `code` is what it answers."""

    def __init__(self, *codes):
        self.codes = list(codes)
        self.batches = []

    def __call__(self, code, fields, body):
        assert code == Request.SEND_BATCH_MESSAGE
        said = self.codes.pop(0) if self.codes else Answer.SUCCESS
        if said is None:
            return None
        if said == Answer.SUCCESS:
            self.batches.append((int(fields["e"]), [one for one, _ in decode_batch(body)]))
        return Answered(said, queueOffset=0)


def write(address, numbers, **more):
    given = {"namesrv.addr": address, "topic": "t", **PLAIN, **more}
    with sink_task(RocketmqSink, given) as task:
        task.write([{"n": number} for number in numbers])


def test_a_broker_that_is_busy_is_asked_again(cluster):
    store = Store(Answer.SYSTEM_BUSY, Answer.FLOW_CONTROL)
    write(cluster(store), [1, 2])
    assert store.batches == [(0, [b'{"n":1}', b'{"n":2}'])]


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (Answer.FLUSH_DISK_TIMEOUT, "not_durable"),
        (Answer.SLAVE_NOT_AVAILABLE, "not_durable"),
        (Answer.NO_PERMISSION, "not_authorized"),
        (Answer.MESSAGE_ILLEGAL, "too_large"),
        (Answer.TOPIC_NOT_EXIST, "refused"),
        (None, "not_delivered.*no answer in time"),
    ],
)
def test_what_is_not_stored_fails_the_transaction(cluster, monkeypatch, said, code):
    monkeypatch.setattr(sender, "REQUEST_TIMEOUT_S", 0.2)
    with pytest.raises(RemoteError, match=rf"rocketmq\.{code}"):
        write(cluster(Store(said)), [1])


def test_a_connection_that_was_closed_meanwhile_is_opened_again(cluster):
    store = Store()
    address = cluster(store)
    given = {"namesrv.addr": address, "topic": "t", **PLAIN}
    with sink_task(RocketmqSink, given) as task:
        task.write([{"n": 1}])
        cluster.broker.hang_up()  # as a broker does to a connection without frames
        task.write([{"n": 2}])
    assert [batch for _, batch in store.batches] == [[b'{"n":1}'], [b'{"n":2}']]


def test_a_queue_has_one_batch_in_flight_and_keeps_its_order(cluster, monkeypatch):
    monkeypatch.setattr(rocketmq_sink, "_BATCH_BYTES", 1024)
    send = sender.Sender._send

    def watched(self, lane, now):
        assert lane not in self._in_flight.values()
        send(self, lane, now)

    monkeypatch.setattr(sender.Sender, "_send", watched)
    store = Store()
    write(cluster(store, queues=2), range(500), **{"keys.columns": "n"})
    by_queue = {}
    for queue, bodies in store.batches:
        by_queue.setdefault(queue, []).extend(int(body[5:-1]) for body in bodies)
    assert len(store.batches) > 10
    assert sorted(by_queue[0] + by_queue[1]) == list(range(500))
    for queue, numbers in by_queue.items():
        assert numbers == sorted(numbers)
        assert {int_hash(number) % 2 for number in numbers} == {queue}


def int_hash(number):
    value = 0
    for sign in str(number):
        value = 31 * value + ord(sign)
    return value


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


def test_tls_is_spoken_and_certificates_are_checked(authority, tmp_path):
    def serve(name, **more):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*authority.sign(name, **more))
        return Peer(lambda *_: route("127.0.0.1:9", 2), context)

    trusted = {"tls.enable": "true", "tls.trust.cert.path": str(authority.ca)}
    with serve("named", address="127.0.0.1") as peer, serve("other") as other:
        assert len(plan(RocketmqSource, source(peer.address, **trusted))) == 2
        with pytest.raises(RemoteError, match=r"rocketmq\.tls"):
            plan(RocketmqSource, source(peer.address, **{"tls.enable": "true"}))
        with pytest.raises(RemoteError, match=r"rocketmq\.tls.*127\.0\.0\.1"):
            plan(RocketmqSource, source(other.address, **trusted))
        unchecked = trusted | {"tls.check.hostname": "false"}
        assert len(plan(RocketmqSource, source(other.address, **unchecked))) == 2
        with pytest.raises(RemoteError, match=r"rocketmq\.(unavailable|protocol)"):
            plan(RocketmqSource, source(peer.address))


def test_an_address_that_nobody_listens_at_is_told():
    (closed,) = free_ports(1)
    with pytest.raises(RemoteError, match=rf"rocketmq\.unavailable.*connect: 127.0.0.1:{closed}"):
        plan(RocketmqSource, source(f"127.0.0.1:{closed}"))
