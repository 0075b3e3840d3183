"""Queues and topics of ActiveMQ, in one plugin: `python -m penstock_amqp`.

- `activemq_source`  messages as rows, acknowledged when these are committed
- `activemq_sink`    rows as messages, in transactions of the broker
- `config`           the keys of a connection
- `connection`       a connection to a broker, and its errors as ours
- `headers`          headers of messages ↔ keys and headers of rows
- `frames`           frames of STOMP

`plugin.toml` is the manifest by which a host finds them. The README has every key.
"""

from penstock_amqp.activemq_sink import ActivemqSink
from penstock_amqp.activemq_source import ActivemqSource

__all__ = ["CONNECTORS", "ActivemqSink", "ActivemqSource"]

CONNECTORS = (ActivemqSource, ActivemqSink)
"""What the plugin serves."""
