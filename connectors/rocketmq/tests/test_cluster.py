"""With a real name server and a real broker: what only these can show."""

import json
import time

import pytest
from penstock_rocketmq import RocketmqSink, RocketmqSource, fetcher, sender
from penstock_rocketmq.cluster import parse_topics
from penstock_rocketmq.frames import Request

from penstock_connector.testing import RemoteError, plan, sink_task, source_task
from penstock_kit.testing import wait_until
from support.rocketmq import BROKER, bodies_of

PLAIN = {"value.converter.schemas.enable": "false"}


def source(rocketmq, topic, **more):
    return {**rocketmq.login, "topics": topic, **PLAIN, **more}


def sink(rocketmq, topic, **more):
    return {**rocketmq.login, "topic": topic, **PLAIN, **more}


def write(rocketmq, topic, numbers, **more):
    with sink_task(RocketmqSink, sink(rocketmq, topic, **more)) as task:
        task.write([{"n": number} for number in numbers], key_columns=("n",))


def numbers(rows):
    return [row["n"] for row in rows]


def test_rocketmqs_own_client_reads_what_a_sink_writes(rocketmq, topic):
    with sink_task(RocketmqSink, sink(rocketmq, topic, **{"tags.column": "kind"})) as task:
        rows = [{"id": 17, "kind": "paid"}, {"id": 18, "kind": "refunded"}]
        task.write(rows, key_columns=("id",))
    printed = rocketmq.mqadmin("consumeMessage", "-t", topic)
    found = sorted(map(json.loads, bodies_of(printed)), key=lambda row: row["id"])
    assert found == rows
    assert "TAGS=paid" in printed
    assert "KEYS=18" in printed


def test_a_source_reads_what_rocketmqs_own_client_sends(rocketmq, topic):
    rocketmq.create_topic(topic)
    large = json.dumps({"id": 1, "text": "compressed by the client " * 400})
    rocketmq.mqadmin(
        "sendMessage", "-t", topic, "-p", large, "-k", "k1", "-c", "paid", "-b", BROKER, "-i", "0"
    )
    before = time.time_ns() // 1000
    with source_task(RocketmqSource, source(rocketmq, topic)) as task:
        (row,) = task.rows(1)
    at = row.pop("__ts_us")
    assert before - 60_000_000 < at < before + 60_000_000
    assert row == {
        "id": 1, "text": "compressed by the client " * 400, "__key": "k1",
        "__headers": [("TAGS", b"paid")],
    }  # fmt: skip


def test_all_messages_are_read_once_and_in_order_of_each_queue(rocketmq, topic):
    write(rocketmq, topic, range(20_000))
    with source_task(RocketmqSource, source(rocketmq, topic)) as task:
        rows = task.rows(20_000)
    assert sorted(numbers(rows)) == list(range(20_000))
    by_queue = {}
    for row in rows:
        by_queue.setdefault(sum_of(str(row["n"])) % 4, []).append(row["n"])
    assert [sorted(found) for found in by_queue.values()] == list(by_queue.values())


def sum_of(text):
    value = 0
    for sign in text:
        value = (31 * value + ord(sign)) & 0xFFFFFFFF
    return abs(value - (1 << 32) if value >> 31 else value)


def test_large_messages_are_written_and_read(rocketmq, topic):
    rows = [{"n": at, "text": "x" * (3 << 20)} for at in range(4)]
    with sink_task(RocketmqSink, sink(rocketmq, topic, **{"topic.queues": "1"})) as task:
        task.write(rows)
    with source_task(RocketmqSource, source(rocketmq, topic)) as task:
        found = task.rows(4)
    assert [(row["n"], len(row["text"])) for row in found] == [(at, 3 << 20) for at in range(4)]


def test_messages_are_chosen_by_tags(rocketmq, topic):
    rocketmq.create_topic(topic)
    tags = ["a", "b", "c", "a"] * 100
    messages = [
        (b'{"n": %d}' % at, b"TAGS\x01%s\x02" % tag.encode()) for at, tag in enumerate(tags)
    ]
    rocketmq.send(topic, *messages)
    with source_task(RocketmqSource, source(rocketmq, topic, tags="c || x")) as task:
        assert numbers(task.rows(100)) == list(range(2, 400, 4))


def test_reading_begins_at_a_time(rocketmq, topic):
    rocketmq.create_topic(topic)
    rocketmq.send(topic, (b'{"n": 1}', b""))
    now_ms = time.time_ns() // 1_000_000 + 1
    wait_until(lambda: time.time_ns() // 1_000_000 > now_ms, 5, "the clock goes on")
    rocketmq.send(topic, (b'{"n": 2}', b""))
    text = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now_ms / 1000))}.{now_ms % 1000:03}Z"
    given = {"consume.from.where": "timestamp", "consume.timestamp": text}
    with source_task(RocketmqSource, source(rocketmq, topic, **given)) as task:
        assert numbers(task.rows(1)) == [2]


def test_topics_are_found_by_a_pattern_and_rocketmqs_own_are_not(rocketmq, topic):
    for name in (f"{topic}-a", f"{topic}-b"):
        rocketmq.create_topic(name, 2)
    given = {key: value for key, value in source(rocketmq, topic).items() if key != "topics"}
    found = plan(RocketmqSource, given | {"topics.regex": f"{topic}-.*"})
    assert [(one.key["topic"], one.key["queue"]) for one in found] == [
        (f"{topic}-a", 0), (f"{topic}-a", 1), (f"{topic}-b", 0), (f"{topic}-b", 1),
    ]  # fmt: skip
    every = {one.key["topic"] for one in plan(RocketmqSource, given | {"topics.regex": ".*"})}
    own = {BROKER, "tests", "RMQ_SYS_TRANS_HALF_TOPIC", "SCHEDULE_TOPIC_XXXX"}
    assert own <= all_topics(rocketmq)
    assert not own & every
    assert all("%" not in name and "SYS_" not in name.upper() for name in every), every
    rocketmq.create_topic(f"{topic}-a", 3)  # queues that are added
    found = plan(RocketmqSource, given | {"topics.regex": f"{topic}-a"})
    assert [one.key["queue"] for one in found] == [0, 1, 2]


def all_topics(rocketmq):
    """Return what the name server says, RocketMQ's own topics among it."""
    client = rocketmq.client()
    request = Request.GET_ALL_TOPIC_LIST_FROM_NAMESERVER
    try:
        return set(parse_topics(client.ask(rocketmq.namesrv, request, {}, "topics").body))
    finally:
        client.close()


def test_an_offset_of_a_topic_that_was_made_anew_is_an_error(rocketmq, topic):
    rocketmq.create_topic(topic)
    (partition,) = plan(RocketmqSource, source(rocketmq, topic))
    with (
        pytest.raises(RemoteError, match=r"rocketmq\.offset_lost.*offsets 0 to 0, and 5 is"),
        source_task(
            RocketmqSource, source(rocketmq, topic), offsets={partition.id: {"offset": 5}}
        ) as task,
    ):
        task.rows(1)


def test_a_user_that_the_broker_does_not_know_is_refused(rocketmq, topic):
    rocketmq.create_topic(topic)
    wrong = source(rocketmq, topic, **{"secret.key": "wrong"})
    with (
        pytest.raises(RemoteError, match=r"rocketmq\.not_authorized"),
        source_task(RocketmqSource, wrong) as task,
    ):
        task.rows(1)
    with pytest.raises(RemoteError, match=r"rocketmq\.not_authorized"):
        write(rocketmq, topic, [1], **{"secret.key": "wrong"})


def test_a_group_that_the_broker_does_not_have_is_told(rocketmq, topic):
    rocketmq.create_topic(topic)
    given = source(rocketmq, topic, **{"consumer.group": "nobody"})
    with (
        pytest.raises(RemoteError, match=r"rocketmq\.no_group.*nobody"),
        source_task(RocketmqSource, given) as task,
    ):
        task.rows(1)


def test_a_topic_that_is_missing_is_told_where_none_may_be_made(rocketmq, topic):
    with pytest.raises(RemoteError, match=r"rocketmq\.no_topic"):
        write(rocketmq, topic, [1], **{"topic.queues": "0"})
    assert plan(RocketmqSource, source(rocketmq, topic)) == []


def test_a_real_cluster_talks_tls_and_its_certificates_are_checked(rocketmq, topic):
    given = {"tls.enable": "true", "tls.trust.cert.path": str(rocketmq.ca)}
    write(rocketmq, topic, range(2_000), **given)
    with source_task(RocketmqSource, source(rocketmq, topic, **given)) as task:
        assert sorted(numbers(task.rows(2_000))) == list(range(2_000))
    with pytest.raises(RemoteError, match=r"rocketmq\.tls"):
        plan(RocketmqSource, source(rocketmq, topic, **{"tls.enable": "true"}))


def test_reading_goes_on_when_the_broker_was_killed(rocketmq, topic):
    rocketmq.create_topic(topic)
    rocketmq.send(topic, *((b'{"n": %d}' % at, b"") for at in range(500)))
    with source_task(RocketmqSource, source(rocketmq, topic)) as task:
        rows = task.rows(500)
        rocketmq.kill()
        rocketmq.start()
        rocketmq.send(topic, *((b'{"n": %d}' % at, b"") for at in range(500, 1000)))
        rows += task.rows(500)
    assert numbers(rows) == list(range(1000))


def test_reading_goes_on_when_the_broker_was_frozen(rocketmq, topic, monkeypatch):
    monkeypatch.setattr(fetcher, "SUSPEND_S", 0.5)
    monkeypatch.setattr(fetcher, "REQUEST_TIMEOUT_S", 0.5)
    rocketmq.create_topic(topic)
    rocketmq.send(topic, (b'{"n": 0}', b""))
    with source_task(RocketmqSource, source(rocketmq, topic)) as task:
        rows = task.rows(1)
        rocketmq.freeze()
        try:
            with pytest.raises(TimeoutError):
                task.until("ready", timeout=2.5)  # longer than a pull may take
        finally:
            rocketmq.thaw()
        rocketmq.send(topic, (b'{"n": 1}', b""))
        rows += task.rows(1)
    assert numbers(rows) == [0, 1]


def test_what_was_sent_to_a_frozen_broker_is_sent_again_with_the_same_ids(
    rocketmq, topic, monkeypatch
):
    monkeypatch.setattr(sender, "REQUEST_TIMEOUT_S", 0.5)
    rows = [{"n": at} for at in range(100)]
    given = sink(rocketmq, topic, **{"topic.queues": "1"})
    with sink_task(RocketmqSink, given) as task:
        task.put(rows, txn_id=1)
        rocketmq.freeze()
        try:
            with pytest.raises(RemoteError, match=r"rocketmq\.not_delivered"):
                task.prepare(1, [(0, 0, 100)])
        finally:
            rocketmq.thaw()
    with sink_task(RocketmqSink, given) as task:  # the next run
        task.put(rows, txn_id=1)
        task.prepare(1, [(0, 0, 100)])
    stored = rocketmq.read(topic)
    ids = [one.split(b"penstock_id\x01")[1] for one in stored.properties]
    once = dict(zip(ids, stored.bodies, strict=True))
    assert len(stored.bodies) == 200  # the frozen broker had taken them
    assert [json.loads(body)["n"] for body in once.values()] == list(range(100))
