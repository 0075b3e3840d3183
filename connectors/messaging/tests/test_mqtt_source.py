"""Messages of a real broker as rows."""

from penstock_connector.testing import source_task
from penstock_messaging import MqttSource

PLAIN = {"value.converter.schemas.enable": "false"}


def keys(mosquitto, topic, **more):
    given = {**mosquitto.keys, **PLAIN, "mqtt.topics": f"{topic}/#", "mqtt.client.id": topic}
    return given | {name.replace("_", "."): str(value) for name, value in more.items()}


def test_messages_are_rows_with_their_topics_as_keys(mosquitto, topic):
    with source_task(MqttSource, keys(mosquitto, topic)) as task:
        task.until("checkpoint")
        with mosquitto.client() as client:
            client.publish(f"{topic}/1", b'{"n": 1}', properties=[("who", "me")])
        (row,) = task.rows(1)
    headers = dict(row["__headers"])
    assert (row["n"], row["__key"]) == (1, f"{topic}/1")
    assert headers["who"] == b"me"
    assert (headers["mqtt.qos"], headers["mqtt.duplicate"]) == (b"1", b"false")
