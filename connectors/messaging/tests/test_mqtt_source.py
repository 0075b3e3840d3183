"""Messages of a real broker as rows, and what becomes of them when something breaks."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.reasoncodes import ReasonCode

from penstock_connector import ApplyAction, Partition, RawRow, RetriableError
from penstock_connector._config import parse_config
from penstock_connector.raw_messages import RawMessage
from penstock_connector.testing import (
    RemoteError,
    apply_action,
    parse_rows,
    plan,
    source_task,
)
from penstock_kit.testing import wait_until
from penstock_messaging import MqttSource
from penstock_messaging.mqtt.broker import Broker, Callbacks, Session
from penstock_values.messages import offset_from_proto

PLAIN = {"value.converter.schemas.enable": "false"}
DELETE = 3


def keys(mosquitto, topic, **more):
    given = {**mosquitto.keys, **PLAIN, "mqtt.topics": f"{topic}/#", "mqtt.client.id": topic}
    return given | {name.replace("_", "."): str(value) for name, value in more.items()}


def send(mosquitto, topic, *numbers, **more):
    mosquitto.publish(f"{topic}/1", *[b'{"n": %d}' % n for n in numbers], **more)


def numbers(rows):
    return [row["n"] for row in rows]


def test_messages_are_rows_with_their_topics_as_keys(mosquitto, topic):
    with source_task(MqttSource, keys(mosquitto, topic, kafka_topic="plant")) as task:
        task.until("checkpoint")
        with mosquitto.client() as client:
            client.publish(f"{topic}/1", b'{"n": 1}', properties=[("who", "me")])
        (row,) = task.rows(1)
        schema = next(frame.schema for frame in task.seen if frame.HasField("schema"))
    headers = dict(row["__headers"])
    assert (row["n"], row["__key"]) == (1, f"{topic}/1")
    assert row["__ts_us"] > 1_700_000_000_000_000
    assert schema.dataset == "plant"
    assert headers["who"] == b"me"
    assert (headers["mqtt.qos"], headers["mqtt.duplicate"]) == (b"1", b"false")
    assert headers["mqtt.delivery.id"].startswith(f"{topic}:".encode())


def test_a_message_without_a_payload_is_a_deleted_row(mosquitto, topic):
    with source_task(MqttSource, keys(mosquitto, topic)) as task:
        task.until("checkpoint")
        send(mosquitto, topic, 1)
        mosquitto.publish(f"{topic}/2", b"")
        rows = task.rows(2)
    assert [(row["__key"], row.get("__op")) for row in rows][1] == (f"{topic}/2", DELETE)


def test_a_payload_that_cannot_be_read_is_a_bad_row_that_can_be_corrected(mosquitto, topic):
    with source_task(MqttSource, keys(mosquitto, topic)) as task:
        task.until("checkpoint")
        mosquitto.publish(f"{topic}/1", b'{"n": 0}', b"\xff{", b'{"n": 2}')
        rows = task.rows(2)  # first: `until` passes over rows, and the first may come by itself
        found = [frame.bad_row for frame in task.seen if frame.HasField("bad_row")]
        bad = found[0] if found else task.until("bad_row").bad_row
    assert numbers(rows) == [0, 2]
    assert RawMessage.from_bytes(bad.raw).value == b"\xff{"
    assert offset_from_proto(bad.offset) == {"number": 2}
    assert "VALUE_CONVERTER" in str(bad)
    raw = RawRow(bad.raw, json.loads(bad.partition_id), bad.dataset, {})
    corrected = replace(raw, changes={"__raw_value": '{"n": 1}'})
    again, mended = parse_rows(MqttSource, keys(mosquitto, topic), [raw, corrected])
    assert again.message.startswith("VALUE_CONVERTER: ")
    (row,) = mended.to_pylist()
    assert (row["n"], row["__key"]) == (1, rows[0]["__key"])
    assert mended.schema.names == list(rows[0])


def test_what_is_not_committed_comes_again_and_what_is_does_not(mosquitto, topic):
    given = keys(mosquitto, topic, batch_rows=2)
    mosquitto.subscribe(topic, f"{topic}/#")
    send(mosquitto, topic, *range(6))
    with source_task(MqttSource, given) as task:
        rows = task.rows(2)
        task.until("checkpoint")
        task.commit()
        rows += task.rows(4)
        task.drain()
    with source_task(MqttSource, given, offsets=task.offsets) as again:
        repeated = again.rows(6 - len(rows[:2]))
    assert numbers(rows) == list(range(6))
    # acknowledged in order, as far as commits were seen
    assert numbers(repeated)[-4:] == [2, 3, 4, 5]
    first = [dict(row["__headers"])["mqtt.delivery.id"] for row in rows][-4:]
    second = [dict(row["__headers"])["mqtt.delivery.id"] for row in repeated][-4:]
    assert first == second


def test_nothing_is_acknowledged_before_its_commit(mosquitto, topic):
    mosquitto.subscribe(topic, f"{topic}/#")
    send(mosquitto, topic, *range(20))
    given = keys(mosquitto, topic, mqtt_receive_maximum=5)
    with source_task(MqttSource, given) as task:
        assert numbers(task.rows(5)) == list(range(5))
        with pytest.raises(TimeoutError):
            task.until("ready", 1.0)  # the broker waits for acknowledgements
        task.until("checkpoint") if task._checkpoint == 0 else None
        task.commit()
        assert numbers(task.rows(5))[:5] == list(range(5, 10))


def test_a_broker_that_starts_again_gives_no_row_twice(own_mosquitto, topic):
    with source_task(MqttSource, keys(own_mosquitto, topic)) as task:
        task.until("checkpoint")
        send(own_mosquitto, topic, 0, 1)
        rows = task.rows(2)
        own_mosquitto.stop()
        own_mosquitto.start()
        wait_until(lambda: sends(own_mosquitto, topic, 2), 20, "the broker takes messages")
        rows += task.rows(1)
        task.until("checkpoint")
        task.commit()
        send(own_mosquitto, topic, 3)
        rows += task.rows(1)
    assert numbers(rows) == [0, 1, 2, 3]


def sends(mosquitto, topic, number):
    send(mosquitto, topic, number)
    return True


def test_a_process_that_is_killed_leaves_its_messages_to_the_next_one(mosquitto, topic, tmp_path):
    given = keys(mosquitto, topic)
    script = (
        "import json, sys, time\n"
        "from penstock_connector import Partition\n"
        "from penstock_connector._config import parse_config\n"
        "from penstock_messaging import MqttSource\n"
        "source = MqttSource()\n"
        "source.init(parse_config(MqttSource.config_type, json.loads(sys.argv[1])))\n"
        "source.connect([Partition({'session': 0})])\n"
        "print('open', flush=True)\n"
        "while True:\n"
        "    batch = source.read_batch()\n"
        "    if batch is None: source.wait(1)\n"
        "    elif batch.rows: print('rows', flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, json.dumps(given)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "open\n"
        send(mosquitto, topic, 7)
        assert process.stdout.readline() == "rows\n"
        os.kill(process.pid, signal.SIGKILL)
    with source_task(MqttSource, given) as task:
        (row,) = task.rows(1)
    assert row["n"] == 7
    assert dict(row["__headers"])["mqtt.duplicate"] == b"true"


def test_a_session_that_the_broker_has_no_more_is_an_error_or_passed_over(mosquitto, topic):
    given = keys(mosquitto, topic)
    with source_task(MqttSource, given) as task:
        task.until("checkpoint")
        task.commit()
        task.drain()
    with mosquitto.client(topic):  # a clean one in its place
        pass
    with (
        pytest.raises(RemoteError) as told,
        source_task(MqttSource, given, offsets=task.offsets) as again,
    ):
        again.until("ready", 20)
    assert told.value.code == "mqtt.session_lost"
    assert "mqtt.session.lost=continue" in told.value.diagnostic.fix
    with mosquitto.client(topic):
        pass
    lenient = keys(mosquitto, topic, mqtt_session_lost="continue")
    with source_task(MqttSource, lenient, offsets=task.offsets) as again:
        assert again.opened
        wait_until(lambda: sends(mosquitto, topic, 1), 20, "a message")
        assert numbers(again.rows(1)) == [1]


def test_filters_that_are_left_out_are_not_read_any_more(mosquitto, topic):
    both = keys(mosquitto, topic) | {"mqtt.topics": f"{topic}/1, {topic}/2"}
    with source_task(MqttSource, both) as task:
        task.until("checkpoint")
        task.commit()
        task.drain()
    one = keys(mosquitto, topic) | {"mqtt.topics": f"{topic}/2"}
    with source_task(MqttSource, one, offsets=task.offsets) as task:
        task.until("checkpoint")
        mosquitto.publish(f"{topic}/1", b'{"n": 1}')
        mosquitto.publish(f"{topic}/2", b'{"n": 2}')
        assert numbers(task.rows(1)) == [2]


def test_retained_messages_come_with_a_new_subscription(mosquitto, topic):
    send(mosquitto, topic, 5, retain=True)
    given = keys(mosquitto, topic)
    with source_task(MqttSource, given) as task:
        (row,) = task.rows(1)
        task.until("checkpoint")
        task.commit()
        task.drain()
    assert dict(row["__headers"])["mqtt.retained"] == b"true"
    with source_task(MqttSource, given, offsets=task.offsets) as again:
        send(mosquitto, topic, 6)
        assert numbers(again.rows(1))[-1] == 6
    never = keys(mosquitto, topic, mqtt_retained_handling="never", mqtt_client_id=f"{topic}-n")
    with source_task(MqttSource, never) as task:
        task.until("checkpoint")
        send(mosquitto, topic, 8)
        assert numbers(task.rows(1)) == [8]


def test_a_group_shares_the_messages(mosquitto, topic):
    given = keys(mosquitto, topic, mqtt_share_group="g")
    assert [one.key for one in plan(MqttSource, given, max_tasks=3)] == [
        {"session": 0}, {"session": 1}, {"session": 2},
    ]  # fmt: skip
    config = MqttSource.config_type(
        mqtt_server_uri=(mosquitto.uri,), mqtt_topics=("a",), mqtt_share_group="g",
        key_converter_keys={}, value_converter_keys={}, header_converter_keys={},
    )  # fmt: skip
    known = [Partition({"session": 4})]
    assert [one.key["session"] for one in MqttSource.plan(config, 1, known)] == [0, 4]
    with source_task(MqttSource, given) as task:
        task.until("checkpoint")
        send(mosquitto, topic, *range(50))
        assert sorted(numbers(task.rows(50))) == list(range(50))


def test_two_clients_of_one_name_do_not_take_it_from_each_other_for_ever(mosquitto, topic):
    given = keys(mosquitto, topic, max_retry_time_ms=1000)
    with source_task(MqttSource, given) as one, source_task(MqttSource, given) as other:
        ended = []
        for task in (one, other):
            with contextlib.suppress(TimeoutError):
                try:
                    task.until("ready", 5)
                except RemoteError as error:
                    ended.append(error)
    assert [one.code for one in ended][:1] == ["mqtt.unavailable"]
    assert topic in str(ended[0])


def test_a_session_that_another_client_took_is_not_taken_back(mosquitto, topic):
    config = parse_config(MqttSource.config_type, keys(mosquitto, topic))
    broker = Broker(config, Session(topic), Callbacks())
    reason = ReasonCode(PacketTypes.DISCONNECT, identifier=0x8E)
    broker.client.on_disconnect(None, None, None, reason, None)  # Mosquitto 2.0.11 does not say it
    with pytest.raises(RetriableError, match="session_taken_over"):
        broker.require()
    broker.close()


def test_a_password_that_ends_while_rows_flow_is_an_error_of_credentials(own_mosquitto, topic):
    with source_task(MqttSource, keys(own_mosquitto, topic)) as task:
        task.until("checkpoint")
        own_mosquitto.set_password("another one")
        own_mosquitto.stop()
        own_mosquitto.start()
        with pytest.raises(RemoteError) as told:
            task.until("ready", 20)
    assert told.value.code == "mqtt.not_authorized"
    assert "secret" not in str(told.value)


def test_a_broker_that_hangs_or_is_gone_is_waited_for_and_then_an_error(own_mosquitto, topic):
    given = keys(own_mosquitto, topic, mqtt_keepalive_interval_seconds=1, max_retry_time_ms=1500)
    given["mqtt.connect.timeout.seconds"] = "1"
    with source_task(MqttSource, given) as task:
        task.until("checkpoint")
        own_mosquitto.pause(is_paused=True)
        with pytest.raises(RemoteError) as told:
            task.until("ready", 30)
        own_mosquitto.pause(is_paused=False)
    assert told.value.code == "mqtt.unavailable"


def test_qos_0_is_not_kept(mosquitto, topic):
    with source_task(MqttSource, keys(mosquitto, topic, mqtt_qos=0)) as task:
        task.until("checkpoint")
        send(mosquitto, topic, 1)
        (row,) = task.rows(1)
    headers = dict(row["__headers"])
    assert headers["mqtt.qos"] == b"0"
    assert "mqtt.delivery.id" not in headers


def test_no_credit_stops_reading_and_nothing_is_lost(mosquitto, topic):
    mosquitto.subscribe(topic, f"{topic}/#")
    send(mosquitto, topic, *range(500))
    with source_task(MqttSource, keys(mosquitto, topic, batch_rows=10), batches=1) as task:
        rows = []
        while len(rows) < 500:
            ready = task.until("ready").ready
            rows += task.fetch(ready.seq).to_pylist()
            task.release(ready.seq)
    assert numbers(rows) == list(range(500))


def test_a_connector_that_is_deleted_leaves_no_session(mosquitto, topic):
    given = keys(mosquitto, topic)
    with source_task(MqttSource, given) as task:
        task.until("checkpoint")
        task.drain()
    apply_action(MqttSource, given, ApplyAction.DELETE)
    with mosquitto.client(topic, clean=False) as client:
        assert not client.had_session
