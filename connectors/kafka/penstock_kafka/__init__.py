"""Topics of Apache Kafka, in one plugin: `python -m penstock_kafka`.

- `kafka_source`  messages as rows, at offsets that the host keeps
- `kafka_sink`    rows as messages, in transactions that have the host's offsets in them
- `mirror`        topics of one cluster in another one, as MirrorMaker 2 mirrors them
- `topic_reader`  the messages of a task's partitions
- `broker`        the keys of a connection, and errors of Kafka as ours
- `messages`      messages of Kafka's client ↔ columns
- `offsets_topic` the topic with the last transaction of each task
- `originals`     messages of dead letters

`plugin.toml` is the manifest by which a host finds them. The README has every key.
"""

from penstock_kafka.kafka_sink import KafkaSink
from penstock_kafka.kafka_source import KafkaSource
from penstock_kafka.mirror.checkpoint_source import CheckpointSource
from penstock_kafka.mirror.heartbeat_source import HeartbeatSource
from penstock_kafka.mirror.mirror_source import MirrorSource

__all__ = [
    "CONNECTORS",
    "CheckpointSource",
    "HeartbeatSource",
    "KafkaSink",
    "KafkaSource",
    "MirrorSource",
]

CONNECTORS = (KafkaSource, KafkaSink, MirrorSource, CheckpointSource, HeartbeatSource)
"""What the plugin serves."""
