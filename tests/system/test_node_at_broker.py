"""Keys of a node, as brokers see them: who logs in, and what a corrupt message means."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from support.kafka import OTHER, OTHERS_PASSWORD, PASSWORD, USER, KafkaServer
from support.processes import PLAIN
from support.standalone import Standalone

pytestmark = pytest.mark.timeout(400)

STRING: Final = "org.apache.kafka.connect.storage.StringConverter"
TEXT: Final = {"connector.class": "FileStreamSink", "value.converter": STRING}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """One broker for all tests: each has a topic of its own."""
    with KafkaServer(tmp_path_factory.mktemp("kafka")) as kafka:
        yield kafka


def jaas(user: str, password: str) -> str:
    """Who logs in, as Kafka's files have it."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return f'{module} required username="{user}" password="{password}";'


def lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def test_a_connector_reads_as_the_user_of_its_override(kafka: KafkaServer, tmp_path: Path) -> None:
    """The consumers of the worker may not read the topic. A sink without the override fails."""
    kafka.create_topic("orders")
    kafka.produce("orders", [(None, b"first"), (None, b"second")])
    node = {
        "bootstrap.servers": kafka.guarded,
        "topics.backend": "kafka",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": jaas(OTHER, OTHERS_PASSWORD),
        "consumer.security.protocol": "SASL_PLAINTEXT",
        "consumer.sasl.mechanism": "PLAIN",
        "consumer.sasl.jaas.config": jaas(USER, PASSWORD),
        "connector.client.config.override.policy": "Principal",
    }
    own = {"consumer.override.sasl.jaas.config": jaas(OTHER, OTHERS_PASSWORD)}
    written, refused = tmp_path / "written", tmp_path / "refused"
    with (
        kafka.forbid((ResourceType.TOPIC, "orders", AclOperation.READ)),
        Standalone(
            tmp_path / "node",
            node,
            module=PLAIN,
            allowed={**TEXT, "topics": "orders", "file": written, **own},
            refused={**TEXT, "topics": "orders", "file": refused},
        ) as running,
    ):
        running.wait_for(lambda: len(lines(written)) == 2, "the lines of the user who may")
        assert lines(written) == ["first", "second"]
        assert running.failure("refused") == "kafka.not_authorized"
        running.wait_for(lambda: running.written("allowed") == 2, "a task that has not failed")
    assert lines(refused) == []
    for secret in (PASSWORD, OTHERS_PASSWORD):
        assert secret not in running.process.output


def test_a_corrupt_batch_ends_the_task_whatever_is_tolerated(
    kafka: KafkaServer, tmp_path: Path
) -> None:
    """As in Kafka Connect, which tolerates what converters and transforms refuse, and not what its
    consumer raises. The rows before it are there, and it is no dead letter.
    """
    kafka.create_topic("changed")
    for text in (b"first", b"second", b"third"):
        kafka.produce("changed", [(None, text)])
    kafka.stop()
    segment = kafka.segment("changed")
    segment.write_bytes(segment.read_bytes().replace(b"second", b"2econd"))
    kafka.start()
    tolerant = {
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": "changed-dead",
        "errors.deadletterqueue.topic.replication.factor": 1,
    }
    node = {"bootstrap.servers": kafka.bootstrap, "topics.backend": "kafka"}
    written = tmp_path / "written"
    sink = {**TEXT, "topics": "changed", "file": written, **tolerant}
    with Standalone(tmp_path / "node", node, module=PLAIN, tolerant=sink) as running:
        assert running.failure("tolerant") == "kafka.corrupt_record"
        assert "consume changed-0: " in running.process.output
    assert lines(written) == ["first"]
    assert kafka.count("changed-dead") == 0
