"""A real broker of Kafka for tests: one process, on private ports and in a private folder.

    with KafkaServer(folder) as kafka:
        kafka.bootstrap; kafka.kill(); kafka.start()

Its jars come from Maven (`support.maven`). Besides the open listener there is one that asks for a
user (SASL: PLAIN, SCRAM and OAUTHBEARER; `USER` with `PASSWORD`), and one that asks for a
certificate (TLS). Tokens are believed without a signature. Users have all rights but those that
`forbid` takes from `USER`.
"""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from penstock_kit.testing import wait_until
from support import maven
from support.certificates import Authority
from support.processes import DIES_WITH_US, free_ports

VERSION: Final = "4.3.1"
USER, PASSWORD = "writer", "secret-of-kafka"
_CLUSTER: Final = "MkU3OEVBNTcwNTJENDM2Qg"
_START_S: Final = 90.0
_ALLOW, _DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
_PROPERTIES: Final = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=OPEN://127.0.0.1:{port},USERS://127.0.0.1:{users},TLS://127.0.0.1:{tls},\
BOTH://127.0.0.1:{both},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=OPEN://127.0.0.1:{port},USERS://127.0.0.1:{users},TLS://127.0.0.1:{tls},\
BOTH://127.0.0.1:{both}
listener.security.protocol.map=OPEN:PLAINTEXT,USERS:SASL_PLAINTEXT,TLS:SSL,BOTH:SASL_SSL,\
CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=OPEN
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER
listener.name.users.plain.sasl.jaas.config={modules}.plain.PlainLoginModule required \
user_{user}="{password}";
listener.name.users.scram-sha-256.sasl.jaas.config={modules}.scram.ScramLoginModule required;
listener.name.users.scram-sha-512.sasl.jaas.config={modules}.scram.ScramLoginModule required;
listener.name.users.oauthbearer.sasl.jaas.config={modules}.oauthbearer.OAuthBearerLoginModule \
required unsecuredLoginStringClaim_sub="broker";
listener.name.tls.ssl.keystore.type=PEM
listener.name.tls.ssl.keystore.location={folder}/certificates/broker.both
listener.name.tls.ssl.truststore.type=PEM
listener.name.tls.ssl.truststore.location={folder}/certificates/ca.pem
listener.name.tls.ssl.client.auth=required
listener.name.both.plain.sasl.jaas.config={modules}.plain.PlainLoginModule required \
user_{user}="{password}";
listener.name.both.sasl.enabled.mechanisms=PLAIN
listener.name.both.ssl.keystore.type=PEM
listener.name.both.ssl.keystore.location={folder}/certificates/broker.both
log.dirs={folder}/log
num.partitions=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=5
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=5
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
allow.everyone.if.no.acl.found=true
"""


class KafkaServer:
    """A broker that is its own controller. Leaving the `with` block kills it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port, self._users, self._tls, self._both, self._controller = free_ports(5)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """The listener that asks for nobody."""
        return f"127.0.0.1:{self._port}"

    @property
    def guarded(self) -> str:
        """The listener that asks for a user."""
        return f"127.0.0.1:{self._users}"

    @property
    def tls(self) -> str:
        """The listener that asks for a certificate."""
        return f"127.0.0.1:{self._tls}"

    @property
    def guarded_tls(self) -> str:
        """The listener with TLS that asks for a user."""
        return f"127.0.0.1:{self._both}"

    def __enter__(self) -> Self:
        """Start it."""
        self.authority = Authority(self._folder / "certificates")
        certificate, private_key = self.authority.sign("broker", address="127.0.0.1")
        both = certificate.read_text(encoding="ascii") + private_key.read_text(encoding="ascii")
        certificate.with_suffix(".both").write_text(both, encoding="ascii")
        text = _PROPERTIES.format(
            port=self._port,
            users=self._users,
            tls=self._tls,
            both=self._both,
            controller=self._controller,
            folder=self._folder,
            modules="org.apache.kafka.common.security",
            user=USER,
            password=PASSWORD,
        )
        (self._folder / "server.properties").write_text(text, encoding="utf-8")
        tool = [*self._java("-Xmx64m"), "kafka.tools.StorageTool", "format", "-t", _CLUSTER]
        subprocess.run(
            [*tool, "-c", str(self._folder / "server.properties")],
            check=True,
            timeout=_START_S,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Kill it."""
        self.kill()

    def _java(self, *options: str) -> list[str]:
        found = maven.jars(
            f"kafka-broker/{VERSION}",
            f"org.apache.kafka:kafka_2.13:{VERSION}",
            f"org.apache.kafka:kafka-tools:{VERSION}",
            "org.slf4j:slf4j-simple:1.7.36",
        )
        return ["java", *options, "-cp", f"{found}/*"]

    def start(self) -> None:
        """Start the broker, and wait until it answers."""
        options = ("-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-Djava.awt.headless=true")
        command = [*DIES_WITH_US, *self._java(*options), "kafka.Kafka"]
        with (self._folder / "kafka.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, str(self._folder / "server.properties")], stdout=log, stderr=log
            )
        wait_until(self._answers, _START_S, "the broker answers")

    def _answers(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            log = (self._folder / "kafka.log").read_text(encoding="utf-8", errors="replace")
            raise AssertionError(f"Kafka ended: {log[-2000:]}")
        with socket.socket() as probe:  # the client prints what it cannot reach
            if probe.connect_ex(("127.0.0.1", self._port)):
                return False
        try:
            return bool(self.admin().list_topics(timeout=1).brokers)
        except KafkaException:
            return False

    def kill(self) -> None:
        """Kill the broker with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """Stop the broker in order: at its next start it believes what is on the disk."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait(_START_S)
        self._process = None

    def segment(self, topic: str, number: int = 0) -> Path:
        """Return the file with the first messages of a partition."""
        return self._folder / "log" / f"{topic}-{number}" / f"{0:020}.log"

    def admin(self) -> AdminClient:
        """Return a client for topics."""
        return AdminClient({"bootstrap.servers": self.bootstrap, "error_cb": _ignore})

    def create_topic(self, topic: str, partitions: int = 1, **config: str) -> None:
        """Create a topic, and wait until the broker knows it."""
        admin = self.admin()  # it must live until the answer is there
        admin.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic].result(30)
        self._wait_for_partitions(admin, topic, partitions)

    def add_partitions(self, topic: str, partitions: int) -> None:
        """Let a topic have so many partitions, and wait until the broker knows them."""
        admin = self.admin()
        admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(30)
        self._wait_for_partitions(admin, topic, partitions)

    @staticmethod
    def _wait_for_partitions(admin: AdminClient, topic: str, partitions: int) -> None:
        """The controller answers before the broker has heard of it."""

        def known() -> bool:
            found = admin.list_topics(topic, timeout=10).topics[topic]
            return len(found.partitions) >= partitions

        wait_until(known, 30, f"{partitions} partitions of {topic}")

    def produce(
        self, topic: str, messages: Iterable[tuple[bytes | None, bytes | None]], **more: Any
    ) -> None:
        """Produce messages of key and value in order, and wait until they are stored.

        A topic that is just created refuses some requests: without idempotence, those that follow
        would be stored before them.
        """
        settings = {"bootstrap.servers": self.bootstrap, "error_cb": _ignore}
        producer = Producer({**settings, "enable.idempotence": True})
        for key, value in messages:
            producer.produce(topic, value, key, **more)
        assert producer.flush(30) == 0

    def delete_before(self, topic: str, offset: int) -> None:
        """Delete the messages of partition 0 before an offset."""
        admin, place = self.admin(), TopicPartition(topic, 0, offset)
        admin.delete_records([place])[place].result(30)

    @contextmanager
    def forbid(self, *rights: tuple[ResourceType, str, AclOperation]) -> Iterator[None]:
        """Take rights from `USER`, and give them back at the end."""
        admin, user = self.admin(), f"User:{USER}"
        given = {(kind, name, AclOperation.ALL, _ALLOW) for kind, name, _ in rights}
        rules = [
            AclBinding(kind, name, ResourcePatternType.LITERAL, user, "*", operation, rule)
            for kind, name, operation, rule in (*given, *((*right, _DENY) for right in rights))
        ]
        for answer in admin.create_acls(rules).values():
            answer.result(30)
        wait_until(lambda: self._rules(admin) == set(rules), 30, "the rules at the broker")
        try:
            yield
        finally:
            found = [
                AclBindingFilter(
                    one.restype, one.name, one.resource_pattern_type, user, "*", one.operation,
                    one.permission_type,
                )
                for one in rules
            ]  # fmt: skip
            for answer in admin.delete_acls(found).values():
                answer.result(30)
            wait_until(lambda: not self._rules(admin), 30, "the rules to be gone")

    @staticmethod
    def _rules(admin: AdminClient) -> set[AclBinding]:
        """Return the rules by which the broker judges now."""
        everything = AclBindingFilter(
            ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY,
            AclPermissionType.ANY,
        )  # fmt: skip
        return set(admin.describe_acls(everything).result(30))

    def group_offset(self, group: str, topic: str, number: int = 0) -> int | None:
        """Return a consumer group's offset of a partition; None without one. A consumer is asked:
        the client's own call for it ends the process while the coordinator is just beginning.
        """
        settings = {"bootstrap.servers": self.bootstrap, "group.id": group, "error_cb": _ignore}
        consumer = Consumer(settings)
        try:
            (found,) = consumer.committed([TopicPartition(topic, number)], timeout=30)
        finally:
            consumer.close()
        return found.offset if found.offset >= 0 else None

    def set_group_offset(self, group: str, topic: str, number: int, offset: int) -> None:
        """Set a consumer group's offset of a partition. A new topic is not known everywhere at
        once.
        """
        admin, place = self.admin(), TopicPartition(topic, number, offset)

        def is_set() -> bool:
            asked = [ConsumerGroupTopicPartitions(group, [place])]
            with suppress(KafkaException):  # the coordinator is just beginning
                admin.alter_consumer_group_offsets(asked)[group].result(30)
                return self.group_offset(group, topic, number) == offset
            return False

        wait_until(is_set, 30, f"the offset of group {group}")

    @contextmanager
    def member(self, group: str, topic: str) -> Iterator[None]:
        """Keep a member in a consumer group that has the topic's partitions."""
        settings = {"bootstrap.servers": self.bootstrap, "group.id": group, "error_cb": _ignore}
        consumer = Consumer({**settings, "enable.auto.commit": False})
        try:
            consumer.subscribe([topic])
            wait_until(lambda: consumer.poll(0.1) or consumer.assignment(), 60, "the assignment")
            yield
        finally:
            consumer.close()

    def count(self, topic: str) -> int:
        """Return how far the partitions of a topic reach together; 0 where it does not exist."""
        settings = {"bootstrap.servers": self.bootstrap, "group.id": "tests", "error_cb": _ignore}
        consumer = Consumer(settings)
        try:
            found = consumer.list_topics(timeout=10).topics.get(topic)
            places = [TopicPartition(topic, one) for one in found.partitions] if found else []
            return sum(consumer.get_watermark_offsets(one, timeout=10)[1] for one in places)
        except KafkaException:  # it is just being created
            return 0
        finally:
            consumer.close()

    def read(self, topic: str, isolation: str = "read_committed") -> list[Any]:
        """Return all messages that a topic has now, in the order of each partition."""
        found = self.admin().list_topics(topic, timeout=10).topics[topic]
        numbers = sorted(found.partitions)
        return [one for number in numbers for one in self._read(topic, number, isolation)]

    def _read(self, topic: str, number: int, isolation: str) -> Sequence[Any]:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "tests",
                "isolation.level": isolation,
                "enable.partition.eof": True,
                "enable.auto.commit": False,
                "error_cb": _ignore,
            }
        )
        messages: list[Any] = []
        place = TopicPartition(topic, number, 0)
        try:
            # where messages come all the time, the client never tells of an end
            _, end = consumer.get_watermark_offsets(place, timeout=30)
            consumer.assign([place])
            while True:
                message = consumer.poll(30)
                assert message is not None, f"{topic}-{number} could not be read in 30 s"
                if message.error() is not None:  # the end, or what fails the test
                    assert message.error().name() == "_PARTITION_EOF", message.error()
                    return messages
                if message.offset() >= end:
                    return messages
                messages.append(message)
        finally:
            consumer.close()


def _ignore(_error: object) -> None:
    """Take what a client tells of its connections."""
