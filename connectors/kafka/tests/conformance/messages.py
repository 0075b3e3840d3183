"""Topics for the conformance kit: `add TOPIC FILE` sends lines as messages, `show TOPIC` prints the
values of all committed ones, `big TOPIC` sends one of 64 MiB, `drop TOPIC` deletes it.
"""

import os
import sys
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

SERVERS = {"bootstrap.servers": os.environ["KIT_KAFKA"]}
LARGE = 100 << 20


def add(topic, lines):
    """Send lines; the topic is created."""
    admin = AdminClient(SERVERS)
    if topic not in admin.list_topics(timeout=30).topics:
        new = NewTopic(topic, 1, 1, config={"max.message.bytes": str(LARGE)})
        admin.create_topics([new])[topic].result(30)
    # in order also where the new topic refuses the first request
    in_order = {"enable.idempotence": True}
    producer = Producer({**SERVERS, **in_order, "message.max.bytes": LARGE})
    for line in lines:
        producer.produce(topic, line)
    assert producer.flush(30) == 0


def show(topic):
    """Print the values of a topic that may not exist."""
    if topic not in AdminClient(SERVERS).list_topics(timeout=30).topics:
        return
    settings = {
        "group.id": "kit",
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
    }
    consumer = Consumer({**SERVERS, **settings})
    consumer.assign([TopicPartition(topic, 0, 0)])
    while (message := consumer.poll(30)) is not None:
        if message.error() is not None:
            if message.error().name() == "_PARTITION_EOF":
                break
            raise KafkaException(message.error())
        print(message.value().decode())
    consumer.close()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["add", topic, file]:
            add(topic, Path(file).read_text(encoding="utf-8").splitlines())
        case ["big", topic]:
            add(topic, ['{"id": 1, "text": "' + "x" * (64 << 20) + '"}'])
        case ["show", topic]:
            show(topic)
        case ["drop", topic]:
            admin = AdminClient(SERVERS)  # it must live until the answer is there
            admin.delete_topics([topic])[topic].result(30)
