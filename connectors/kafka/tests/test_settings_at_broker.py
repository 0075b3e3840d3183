"""Settings that a user gives arrive at the broker: the codec of batches, the settings of topics."""

import pytest
from confluent_kafka.admin import ConfigResource, ResourceType
from penstock_kafka import KafkaSink

from penstock_connector.testing import sink_task

PLAIN = {"value.converter.schemas.enable": "false", "key.converter.schemas.enable": "false"}
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
ATTRIBUTES = 22
"""The byte of a batch that names the codec, in its three lowest bits."""


def config(kafka, topic, **more):
    return {
        "bootstrap.servers": kafka.bootstrap, "topic": topic, **PLAIN, **more,
        "offsets.storage.topic": f"{topic}-offsets", "transactional.id.prefix": f"{topic}-",
    }  # fmt: skip


@pytest.mark.parametrize("codec", ["default", *CODECS])
def test_batches_are_compressed_as_the_user_says(kafka, topic, codec):
    """The file of the broker shows it; without the key it is lz4."""
    more = {} if codec == "default" else {"producer.compression.type": codec}
    with sink_task(KafkaSink, config(kafka, topic, **more)) as task:
        task.write([{"n": 1, "text": "x" * 1000}])
    first = kafka.segment(topic).read_bytes()
    assert first[ATTRIBUTES] & 7 == CODECS["lz4" if codec == "default" else codec]


def test_topics_are_created_as_their_group_says(kafka, topic):
    groups = {
        "topic": "${dataset}",
        "topic.creation.default.partitions": "2",
        "topic.creation.default.replication.factor": "1",
        "topic.creation.groups": "compacted",
        "topic.creation.compacted.include": f"{topic}-state.*",
        "topic.creation.compacted.partitions": "3",
        "topic.creation.compacted.cleanup.policy": "compact",
        "topic.creation.compacted.max.message.bytes": "50000",
    }
    names = (f"{topic}-events", f"{topic}-state-1")
    with sink_task(KafkaSink, config(kafka, topic) | groups) as task:
        for name in names:
            task.write([{"id": 1}], dataset=name, key_columns=("id",))
    admin = kafka.admin()
    found = admin.list_topics(timeout=10).topics
    assert [len(found[name].partitions) for name in names] == [2, 3]
    asked = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    answers = {one.name: told.result(30) for one, told in admin.describe_configs(asked).items()}
    told = [
        tuple(answers[name][key].value for key in ("cleanup.policy", "max.message.bytes"))
        for name in names
    ]
    assert told == [("delete", "1048588"), ("compact", "50000")]
