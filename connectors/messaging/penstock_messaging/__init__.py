"""Messaging systems, in one plugin: `python -m penstock_messaging`.

- `mqtt`  topics of MQTT 5 brokers: `mqtt-source`, `mqtt-sink`

`plugin.toml` is the manifest by which a host finds them. The README has every key.
"""

from penstock_messaging.mqtt.sink import MqttSink
from penstock_messaging.mqtt.source import MqttSource

__all__ = ["CONNECTORS", "MqttSink", "MqttSource"]

CONNECTORS = (MqttSource, MqttSink)
"""What the plugin serves."""
