"""Rows as messages of a real broker."""

from penstock_connector.testing import sink_task
from penstock_kit.testing import wait_until
from penstock_messaging import MqttSink

PLAIN = {"value.converter.schemas.enable": "false"}


def keys(mosquitto, topic, **more):
    given = {**mosquitto.keys, **PLAIN, "mqtt.topic": topic}
    return given | {name.replace("_", "."): str(value) for name, value in more.items()}


def test_rows_are_messages_in_their_order(mosquitto, topic):
    with mosquitto.client() as client:
        client.subscribe(topic)
        with sink_task(MqttSink, keys(mosquitto, topic)) as task:
            task.write([{"n": n, "text": "é"} for n in range(3000)])
        wait_until(lambda: len(client.messages) == 3000, 20, "the messages")
    assert client.messages[0].payload == '{"n":0,"text":"é"}'.encode()
    assert [b'"n":%d,' % n in one.payload for n, one in enumerate(client.messages)] == [True] * 3000
    ids = {dict(one.properties.UserProperty)["penstock_id"] for one in client.messages}
    assert len(ids) == 3000
