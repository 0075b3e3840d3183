"""Rows as messages of a real broker, and what becomes of them when something breaks."""

import pyarrow as pa
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.reasoncodes import ReasonCode

from penstock_connector import RetriableError
from penstock_connector._config import parse_config
from penstock_connector.testing import RemoteError, sink_task
from penstock_kit.testing import wait_until
from penstock_messaging import MqttSink
from penstock_messaging.mqtt.publisher import Publisher, Publishing

PLAIN = {"value.converter.schemas.enable": "false"}
DELETE = 3
HEADERS = pa.map_(pa.string(), pa.binary())


def keys(mosquitto, topic, **more):
    given = {**mosquitto.keys, **PLAIN, "mqtt.topic": topic}
    return given | {name.replace("_", "."): str(value) for name, value in more.items()}


def came(client, count):
    wait_until(lambda: len(client.messages) >= count, 20, f"{count} messages")
    return client.messages


def properties(message):
    return dict(message.properties.UserProperty)


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_rows_are_messages_in_their_order(mosquitto, topic, qos):
    with mosquitto.client() as client:
        client.subscribe(topic, qos=qos)
        with sink_task(MqttSink, keys(mosquitto, topic, mqtt_qos=qos)) as task:
            task.write([{"n": n, "text": "é"} for n in range(3000)])
            messages = came(client, 3000)
    assert messages[0].payload == '{"n":0,"text":"é"}'.encode()
    assert all(b'"n":%d,' % n in one.payload for n, one in enumerate(messages))
    assert {one.qos for one in messages} == {qos}
    ids = {properties(one)["penstock_id"] for one in messages}
    assert len(ids) == 3000


def test_keys_are_parts_of_topics_and_deleted_rows_end_what_is_retained(mosquitto, topic):
    given = keys(mosquitto, f"{topic}/${{key}}", mqtt_retained_enabled="true")
    rows = [{"id": "a", "n": 1, "__op": 1}, {"id": "b", "n": 2, "__op": 1}]
    with sink_task(MqttSink, given) as task:
        task.write(rows, key_columns=["id"])
        task.write([{"id": "a", "n": None, "__op": DELETE}], key_columns=["id"])
    with mosquitto.client() as client:
        client.subscribe(f"{topic}/#")
        messages = came(client, 1)
    assert [one.topic for one in messages] == [f"{topic}/b"]
    assert messages[0].retain


def test_headers_are_properties(mosquitto, topic):
    schema = pa.schema([("n", pa.int64()), ("__headers", HEADERS)])
    headers = [
        ("who", b"me"), ("mqtt.content.type", b"json"), ("mqtt.correlation.data", b"\xff"),
        ("mqtt.message.id", b"9"),
    ]  # fmt: skip
    with mosquitto.client() as client:
        client.subscribe(topic)
        with sink_task(MqttSink, keys(mosquitto, topic)) as task:
            task.write(pa.RecordBatch.from_pylist([{"n": 1, "__headers": headers}], schema))
            (message,) = came(client, 1)
    assert properties(message)["who"] == "me"
    assert "mqtt.message.id" not in properties(message)
    assert message.properties.ContentType == "json"
    assert message.properties.CorrelationData == b"\xff"


def test_rows_that_can_be_no_message_are_rejected_alone(mosquitto, topic):
    given = keys(mosquitto, f"{topic}/${{key}}", mqtt_message_max_bytes="1KiB")
    schema = pa.schema([("k", pa.string()), ("text", pa.string()), ("__headers", HEADERS)])
    rows = [
        {"k": "good", "text": "x"},
        {"k": "a+b", "text": "x"},
        {"k": "long", "text": "x" * 2000},
        {"k": "bytes", "text": "x", "__headers": [("h", b"\xff")]},
        {"k": None, "text": "x"},
        {"k": "last", "text": "x"},
    ]
    with mosquitto.client() as client:
        client.subscribe(f"{topic}/#")
        with sink_task(MqttSink, given) as task:
            txn = task.next_txn()
            (result,) = task.put(
                pa.RecordBatch.from_pylist(rows, schema), txn_id=txn, key_columns=["k"]
            )
            task.prepare(txn, [(0, 0, 2)])
            task.commit(txn)
            messages = came(client, 2)
    assert [one.topic.rpartition("/")[2] for one in messages] == ["good", "last"]
    codes = {one.row: one.reason.code for one in result.failed}
    assert codes == {
        1: "mqtt.topic_name", 2: "mqtt.too_large", 3: "mqtt.header", 4: "mqtt.topic_name",
    }  # fmt: skip


def test_a_message_that_breaks_the_connection_is_an_error_that_says_so(own_mosquitto, topic):
    own_mosquitto.stop()
    own_mosquitto.configure("message_size_limit 500")  # answered by a reason that a PUBACK has not
    own_mosquitto.start()
    given = keys(own_mosquitto, topic, max_retry_time_ms=1000)
    with sink_task(MqttSink, given) as task, pytest.raises(RemoteError) as told:
        task.write([{"text": "x" * size} for size in (1, 2000, 2)])
    assert told.value.code in {"mqtt.not_acknowledged", "mqtt.unavailable"}
    assert "not MQTT 5" in str(told.value) or "Protocol error" in str(told.value)


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        (0x90, "mqtt.message_refused"),
        (0x99, "mqtt.message_refused"),
        (0x97, "mqtt.quota_exceeded"),
        (0x80, "mqtt.refused"),
    ],
)
def test_a_refusal_is_of_the_message_or_of_all(mosquitto, topic, reason, code):
    config = parse_config(MqttSink.config_type, keys(mosquitto, topic))
    publisher = Publisher(config, "", Publishing(1, is_retained=False), lambda _: False)
    publisher._unanswered[7] = (3, topic)
    publisher._publish(7, ReasonCode(PacketTypes.PUBACK, identifier=reason))
    try:
        ((number, error),) = publisher.flush()
        assert number == 3
    except RetriableError as raised:
        error = raised
    publisher.close()
    assert error.code == code


def test_a_packet_that_the_broker_does_not_take_is_left_out_before_it_is_sent(own_mosquitto, topic):
    own_mosquitto.stop()
    own_mosquitto.configure("max_packet_size 1000")
    own_mosquitto.start()
    with sink_task(MqttSink, keys(own_mosquitto, topic), tolerates_failed_rows=True) as task:
        task.write([{"text": "x" * size} for size in (1, 2000, 2)])
        assert [(one.row, one.reason.code) for one in task.left_out] == [(1, "mqtt.too_large")]


def test_a_broker_that_starts_again_in_the_middle_has_every_row(own_mosquitto, topic):
    own_mosquitto.subscribe(topic, topic)
    with sink_task(MqttSink, keys(own_mosquitto, topic)) as task:
        task.write([{"n": 0}])
        own_mosquitto.stop()
        own_mosquitto.start()
        task.write([{"n": n} for n in range(1, 500)])
    with own_mosquitto.client(topic, clean=False) as client:
        messages = came(client, 500)
    assert [int(one.payload[5:-1]) for one in messages] == list(range(500))


def test_a_broker_that_hangs_is_an_error_and_the_rows_come_again(own_mosquitto, topic):
    given = keys(own_mosquitto, topic, max_retry_time_ms=1000)
    own_mosquitto.subscribe(topic, topic)
    with sink_task(MqttSink, given) as task:
        task.write([{"n": 0}])
        own_mosquitto.pause(is_paused=True)
        with pytest.raises(RemoteError) as told:
            task.write([{"n": 1}])
        own_mosquitto.pause(is_paused=False)
    assert told.value.code == "mqtt.not_acknowledged"
    with sink_task(MqttSink, given, last_prepared=task.last_prepared) as again:
        again.write([{"n": 1}])
    with own_mosquitto.client(topic, clean=False) as client:
        assert {one.payload for one in came(client, 2)} == {b'{"n":0}', b'{"n":1}'}


def test_a_row_that_is_sent_again_has_its_id_again(mosquitto, topic):
    with mosquitto.client() as client:
        client.subscribe(topic)
        for _ in range(2):  # the host died before it stored the offsets
            with sink_task(MqttSink, keys(mosquitto, topic)) as task:
                task.write([{"n": 1}, {"n": 2}])
        messages = came(client, 4)
    ids = [properties(one)["penstock_id"] for one in messages]
    assert ids[:2] == ids[2:]
    assert ids[0] != ids[1]


def test_equal_rows_of_two_slots_have_ids_of_their_own(mosquitto, topic):
    with mosquitto.client() as client:
        client.subscribe(topic)
        with sink_task(MqttSink, keys(mosquitto, topic)) as task:
            txn = task.next_txn()
            for slot in (0, 1):
                task.put([{"n": 1}], txn_id=txn, slot=slot)
            task.prepare(txn, [(0, 0, 1), (1, 0, 1)])
            task.commit(txn)
        messages = came(client, 2)
    assert len({properties(one)["penstock_id"] for one in messages}) == 2


def test_a_user_that_may_not_write_or_log_in_is_an_error_of_credentials(own_mosquitto, topic):
    own_mosquitto.stop()
    (own_mosquitto.folder / "acl").write_text(f"user writer\ntopic read {topic}\n")
    own_mosquitto.configure(f"acl_file {own_mosquitto.folder / 'acl'}")
    own_mosquitto.start()
    with (
        sink_task(MqttSink, keys(own_mosquitto, topic)) as task,
        pytest.raises(RemoteError) as told,
    ):
        task.write([{"n": 1}])
    assert told.value.code == "mqtt.not_authorized"
    wrong = keys(own_mosquitto, topic) | {"mqtt.password": "wrong-secret"}
    with pytest.raises(RemoteError) as told, sink_task(MqttSink, wrong):
        pass
    assert told.value.code == "mqtt.not_authorized"
    assert "wrong-secret" not in str(told.value)


def test_a_broker_that_keeps_less_than_is_asked_for_is_refused_by_name(own_mosquitto, topic):
    own_mosquitto.stop()
    own_mosquitto.configure("retain_available false", "max_qos 1")
    own_mosquitto.start()
    for more, code in (
        ({"mqtt_qos": 2}, "mqtt.qos_not_available"),
        ({"mqtt_retained_enabled": "true"}, "mqtt.retain_not_available"),
    ):
        with (
            pytest.raises(RemoteError) as told,
            sink_task(MqttSink, keys(own_mosquitto, topic, **more)),
        ):
            pass
        assert told.value.code == code


def test_a_dataset_that_can_be_no_topic_is_refused(mosquitto, topic):
    for given, dataset, why in (
        ("${dataset}", "a/#", "cannot be the name of a topic"),
        ("${key}", "a", "have no key"),
    ):
        with (
            sink_task(MqttSink, keys(mosquitto, given)) as task,
            pytest.raises(ValueError, match=why),
        ):
            task.put([{"n": 1}], txn_id=task.next_txn(), dataset=dataset)
