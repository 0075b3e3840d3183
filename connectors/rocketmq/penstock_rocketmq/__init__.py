"""Topics of Apache RocketMQ, in one plugin: `python -m penstock_rocketmq`.

- `rocketmq_source`  messages as rows, at offsets that the host keeps
- `rocketmq_sink`    rows as messages, at least once
- `config`           the keys of a connection
- `cluster`          name servers: topics, queues, brokers
- `fetcher`          pulls messages of many queues; `queue_reader` is the state of one
- `sender`           sends batches to queues, in order
- `properties`       properties ↔ keys, tags, times, headers
- `remoting`         connections, and errors of RocketMQ as ours
- `frames`           frames of the remoting protocol; `storage`: messages as brokers store them

`plugin.toml` is the manifest by which a host finds them. The README has every key.
"""

from penstock_rocketmq.rocketmq_sink import RocketmqSink
from penstock_rocketmq.rocketmq_source import RocketmqSource

__all__ = ["CONNECTORS", "RocketmqSink", "RocketmqSource"]

CONNECTORS = (RocketmqSource, RocketmqSink)
"""What the plugin serves."""
