"""What tests ask brokers of Kafka, by a client that is not ours: topics, messages, rights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

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

USER, OTHER = "writer", "reader"
_ALLOW, _DENY = AclPermissionType.ALLOW, AclPermissionType.DENY


class KafkaQuestions:
    """Questions to the brokers at `bootstrap`."""

    bootstrap: str

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
        """Take rights from `USER`, and give them back at the end. `OTHER` keeps them: a broker that
        has a rule asks for one of each user.
        """
        admin, literal = self.admin(), ResourcePatternType.LITERAL
        users = [f"User:{name}" for name in (USER, OTHER)]
        rules = [
            AclBinding(kind, name, literal, user, "*", AclOperation.ALL, _ALLOW)
            for kind, name in {(kind, name) for kind, name, _ in rights}
            for user in users
        ]
        rules += [AclBinding(*of, literal, users[0], "*", right, _DENY) for *of, right in rights]
        for answer in admin.create_acls(rules).values():
            answer.result(30)
        wait_until(lambda: self._rules(admin) == set(rules), 30, "the rules at the broker")
        try:
            yield
        finally:
            found = [
                AclBindingFilter(
                    one.restype, one.name, one.resource_pattern_type, one.principal, "*",
                    one.operation, one.permission_type,
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
        place = TopicPartition(topic, number, 0)
        # where messages come all the time, the client never tells of an end
        end = self._end_of(place)
        consumer = self._consumer(isolation)
        messages: list[Any] = []
        is_open = False
        try:
            consumer.assign([place])
            while True:
                message = consumer.poll(_VISIBLE_S if is_open else 30)
                if message is None:
                    assert is_open, f"{topic}-{number} could not be read in 30 s"
                    return messages
                if message.error() is not None:  # the end, or what fails the test
                    assert message.error().name() == "_PARTITION_EOF", message.error()
                    if message.offset() >= end:
                        return messages
                    # of a transaction that is open, or whose commit is not visible yet
                    is_open = True
                    continue
                if message.offset() >= end:
                    return messages
                messages.append(message)
        finally:
            consumer.close()

    def _end_of(self, place: TopicPartition) -> int:
        """Return the end of a partition, with what no transaction has committed."""
        consumer = self._consumer("read_uncommitted")
        try:
            return int(consumer.get_watermark_offsets(place, timeout=30)[1])
        finally:
            consumer.close()

    def _consumer(self, isolation: str) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "tests",
                "isolation.level": isolation,
                "enable.partition.eof": True,
                "enable.auto.commit": False,
                "error_cb": _ignore,
            }
        )


_VISIBLE_S: Final = 1.0
"""Time in which messages become visible whose transaction has been committed: a broker answers
before it has written that into their partitions.
"""


def _ignore(_error: object) -> None:
    """Take what a client tells of its connections."""
