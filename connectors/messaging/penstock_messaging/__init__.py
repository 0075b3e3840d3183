"""Messaging systems, in one plugin: `python -m penstock_messaging`.

- `mqtt`  topics of MQTT 5 brokers: `mqtt-source`, `mqtt-sink`
- `nats`  streams of NATS JetStream: `nats-source`, `nats-sink`
- `redis` streams, hashes and strings of Redis: `redis-source`, `redis-sink`

`plugin.toml` is the manifest by which a host finds them. The README has every key.
"""

from penstock_messaging.mqtt.sink import MqttSink
from penstock_messaging.mqtt.source import MqttSource
from penstock_messaging.nats.sink import NatsSink
from penstock_messaging.nats.source import NatsSource
from penstock_messaging.redis.sink import RedisSink
from penstock_messaging.redis.source import RedisSource

__all__ = [
    "CONNECTORS",
    "MqttSink",
    "MqttSource",
    "NatsSink",
    "NatsSource",
    "RedisSink",
    "RedisSource",
]

CONNECTORS = (MqttSource, MqttSink, NatsSource, NatsSink, RedisSource, RedisSink)
"""What the plugin serves."""
