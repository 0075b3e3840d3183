"""Topics of Apache Kafka, in one plugin: `python -m penstock_kafka`.

- `kafka_source`  messages as rows, at offsets that the host keeps
- `kafka_sink`    rows as messages, in transactions that have the host's offsets in them
- `broker`        the keys of a connection, and errors of Kafka as ours
- `messages`      messages of Kafka's client ↔ columns
- `commit_log`    the topic with the last transaction of each task

`plugin.toml` is the manifest by which a host finds them. The README has every key.
"""

from penstock_kafka.kafka_sink import KafkaSink
from penstock_kafka.kafka_source import KafkaSource

__all__ = ["CONNECTORS", "KafkaSink", "KafkaSource"]

CONNECTORS = (KafkaSource, KafkaSink)
"""What the plugin serves."""
