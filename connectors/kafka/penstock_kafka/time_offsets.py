"""Offsets by time: where a partition begins that is read from a time on, and offsets that people
set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from penstock_connector import ConfigError, Partition
from penstock_connector.instants import TIMESTAMP, to_milliseconds
from penstock_kafka.broker import REQUEST_TIMEOUT_S, Broker
from penstock_values.start_times import EXAMPLES, is_start_time


def require_reset(reset: str, choices: Sequence[str], path: str) -> None:
    """Refuse a value of `auto.offset.reset`.

    Raises:
        ConfigError: `config.invalid_choice`.
    """
    if reset in choices or is_start_time(reset):
        return
    raise ConfigError(
        "config.invalid_choice",
        f"`{path}` is {reset[:100]!r}",
        fix=f"Use {', '.join(choices)}, or a time: {' or '.join(EXAMPLES)}.",
        config_path=path,
    )


def offset_at(broker: Broker, consumer: Consumer, topic: str, number: int, at_ms: int) -> int:
    """Return the offset of the first message of a time or later; the end where there is none."""
    wanted, stage = TopicPartition(topic, number, max(at_ms, 0)), f"offset of {topic}-{number}"

    def ask() -> int:
        (found,) = consumer.offsets_for_times([wanted], timeout=REQUEST_TIMEOUT_S)
        if found.error is not None:
            raise KafkaException(found.error)
        return int(found.offset)

    offset = broker.ask(stage, ask)
    if offset >= 0:
        return offset
    return bounds(broker, consumer, topic, number)[1]


def bounds(broker: Broker, consumer: Consumer, topic: str, number: int) -> tuple[int, int]:
    """Return the first offset of a partition, and the one after its last message."""
    place = TopicPartition(topic, number)
    low, high = broker.ask(
        f"offsets of {topic}-{number}",
        lambda: consumer.get_watermark_offsets(place, timeout=REQUEST_TIMEOUT_S),
    )
    return low, high


def resolve_offsets(broker: Broker, partitions: Sequence[Partition]) -> list[Partition]:
    """Return partitions with the offsets that people want: times become offsets.

    Raises:
        ConfigError: `kafka.offset`: the partition does not exist, or does not reach so far.
    """
    if all(one.offset is None for one in partitions):
        return list(partitions)
    settings = broker.settings(group_id="penstock-offsets", enable_auto_commit=False)
    consumer = broker.open(Consumer, settings)
    try:
        known = broker.topics(consumer, "topics")
        return [_resolve(broker, consumer, known, one) for one in partitions]
    finally:
        consumer.close()


def _resolve(
    broker: Broker, consumer: Consumer, known: Mapping[str, Any], partition: Partition
) -> Partition:
    if partition.offset is None:
        return partition
    topic, number = str(partition.key.get("topic")), partition.key.get("partition")
    is_time = set(partition.offset) == {TIMESTAMP}
    if is_time and topic not in known:  # it was deleted: nothing is left to begin at
        return Partition(partition.key)
    if topic not in known or type(number) is not int or number not in known[topic].partitions:
        raise _refused(
            f"the brokers have no partition {number} of {topic}",
            "Name partitions as `penstock offsets get` prints them.",
        )
    offset = partition.offset
    if is_time:
        at = offset_at(broker, consumer, topic, number, to_milliseconds(offset[TIMESTAMP]))
        return Partition(partition.key, {"offset": at})
    wanted = offset.get("offset")
    _, high = bounds(broker, consumer, topic, number)
    if set(offset) != {"offset"} or type(wanted) is not int or not 0 <= wanted <= high:
        raise _refused(
            f"{dict(offset)!r} is no offset of {topic}-{number}, which ends at {high}",
            f'Write {{"offset": {high}}} for its end, or '
            f'{{"{TIMESTAMP}": "2026-01-31T12:00:00Z"}}.',
        )
    return partition


def _refused(message: str, fix: str) -> ConfigError:
    return ConfigError("kafka.offset", message, fix=fix)
