"""A user without a right at the brokers: the error names what it is for, and nothing is lost once
the right is there.
"""

import json

import pytest
from confluent_kafka.admin import AclOperation, ResourceType
from penstock_kafka import KafkaSink, KafkaSource

from penstock_connector.testing import RemoteError, plan, sink_task, source_task
from penstock_kit.testing import wait_until
from support.kafka import PASSWORD, USER

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
CLUSTER, TRANSACTION = ResourceType.BROKER, ResourceType.TRANSACTIONAL_ID
READ, WRITE, CREATE = AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE
DESCRIBE = AclOperation.DESCRIBE
ROWS = [{"n": number} for number in range(10)]


def login(kafka):
    """The keys of a user whose rights can be taken away."""
    return {
        "bootstrap.servers": kafka.guarded, "security.protocol": "SASL_PLAINTEXT",
        "sasl.username": USER, "sasl.password": PASSWORD,
        "value.converter.schemas.enable": "false",
    }  # fmt: skip


def sink(kafka, topic):
    return {
        **login(kafka), "topic": topic, "transactional.id.prefix": f"{topic}-",
        "offsets.storage.topic": f"{topic}-offsets", "key.converter.schemas.enable": "false",
    }  # fmt: skip


def source(kafka, topic, **more):
    return {**login(kafka), "topics": topic, **more}


def numbers(kafka, topic):
    return [json.loads(one.value())["n"] for one in kafka.read(topic)]


@pytest.mark.parametrize(
    ("rights", "named"),  # the names of topics and ids begin with that of the test's topic
    [
        ([(TOPIC, "", WRITE)], "topic {}"),
        ([(TOPIC, "", DESCRIBE)], "topic {}"),
        ([(TOPIC, "", CREATE), (CLUSTER, "kafka-cluster", CREATE)], "topic {}"),
        ([(TOPIC, "-offsets", WRITE)], "topic {}-offsets"),
        ([(TOPIC, "-offsets", READ)], "{}-offsets"),
        ([(TRANSACTION, "-test-0", WRITE)], "transactional.id {}-test-0"),
    ],
)
def test_a_sink_that_may_not_names_what_and_loses_nothing(kafka, topic, rights, named):
    if CREATE not in {operation for _, _, operation in rights}:
        kafka.create_topic(topic)
    if (TOPIC, "-offsets", READ) in rights:  # there must be something to be read
        with sink_task(KafkaSink, sink(kafka, topic) | {"topic": f"{topic}-before"}) as task:
            task.write(ROWS)
    taken = [(k, n if k is CLUSTER else topic + n, right) for k, n, right in rights]
    with kafka.forbid(*taken):
        with pytest.raises(RemoteError) as caught, sink_task(KafkaSink, sink(kafka, topic)) as task:
            task.write(ROWS)
        assert caught.value.code == "kafka.not_authorized"
        assert named.format(topic) in str(caught.value)
    with sink_task(KafkaSink, sink(kafka, topic), epoch=2) as task:
        txn = task.opened.committed.txn_id + 1
        task.put(ROWS, txn_id=txn)
        task.prepare(txn, [(0, 0, len(ROWS))])
        task.commit(txn)
    assert numbers(kafka, topic) == [row["n"] for row in ROWS]


def test_a_sink_that_may_not_see_the_settings_of_a_topic_writes_it(kafka, topic):
    """They say how large a batch may be; most topics take what the client makes."""
    kafka.create_topic(topic)
    rights = (TOPIC, topic, AclOperation.DESCRIBE_CONFIGS)
    with kafka.forbid(rights), sink_task(KafkaSink, sink(kafka, topic)) as task:
        task.write(ROWS)
    assert numbers(kafka, topic) == [row["n"] for row in ROWS]


def test_a_source_that_may_not_read_names_the_topic_and_goes_on_where_it_was(kafka, topic):
    kafka.create_topic(topic)
    kafka.produce(topic, [(None, b'{"n": %d}' % n) for n in range(3)])
    with source_task(KafkaSource, source(kafka, topic)) as task:
        rows = task.rows(3)
        task.until("checkpoint")
        task.commit()
        offsets = task.offsets
    kafka.produce(topic, [(None, b'{"n": %d}' % n) for n in range(3, 6)])
    with kafka.forbid((TOPIC, topic, READ)):
        with (
            pytest.raises(RemoteError, match=topic) as caught,
            source_task(KafkaSource, source(kafka, topic), offsets=offsets) as task,
        ):
            task.rows(1)
        assert caught.value.code == "kafka.not_authorized"
    with source_task(KafkaSource, source(kafka, topic), offsets=offsets) as task:
        rows += task.rows(3)
    assert [row["n"] for row in rows] == list(range(6))


def test_a_source_that_may_not_see_a_topic_names_it(kafka, topic):
    kafka.create_topic(topic)
    with (
        kafka.forbid((TOPIC, topic, DESCRIBE)),
        pytest.raises(RemoteError, match=rf"kafka\.not_authorized.*{topic}"),
    ):
        plan(KafkaSource, source(kafka, topic))


def test_groups_that_are_only_names_for_the_client_need_no_right(kafka, topic):
    """A consumer must have one, and partitions are read without it."""
    kafka.create_topic(topic)
    kafka.produce(topic, [(None, b'{"n": %d}' % n) for n in range(3)])
    names = ("penstock", "penstock-offsets", "penstock-originals")
    with kafka.forbid(*((GROUP, name, AclOperation.DESCRIBE) for name in names)):
        with source_task(KafkaSource, source(kafka, topic)) as task:
            assert [row["n"] for row in task.rows(3)] == [0, 1, 2]
        with sink_task(KafkaSink, sink(kafka, f"{topic}-out")) as task:
            task.write(ROWS)
        with sink_task(KafkaSink, sink(kafka, f"{topic}-out"), epoch=2) as task:
            assert task.opened.committed.txn_id == 1
            task.put([{"n": 10}], txn_id=2)
            task.prepare(2, [(0, 0, 1)])
            task.commit(2)
    assert numbers(kafka, f"{topic}-out") == list(range(11))


def test_a_group_that_may_not_be_used_is_told_and_ends_nothing(kafka, topic, caplog):
    kafka.create_topic(topic)
    kafka.produce(topic, [(None, b'{"n": %d}' % n) for n in range(3)])
    group = f"connect-{topic}"
    given = source(kafka, topic, **{"consumer.group.id": group})
    with kafka.forbid((GROUP, group, READ)), source_task(KafkaSource, given) as task:
        rows = task.rows(3)
        task.until("checkpoint")
        task.commit()
        wait_until(lambda: f"the consumer group {group} " in caplog.text, 30, "the warning")
        kafka.produce(topic, [(None, b'{"n": 3}')])
        rows += task.rows(1)
    assert [row["n"] for row in rows] == list(range(4))
