"""Topics for the conformance kit, with KIT_MQTT as the port of a broker.

messages.py keep TOPIC         # makes a session with the topic's name that keeps its messages
messages.py add TOPIC FILE     # sends lines as messages
messages.py show TOPIC         # prints what the session has, and leaves it there
"""

import os
import sys
import threading
import uuid
from pathlib import Path

from paho.mqtt import client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

SECONDS = 20
USER, PASSWORD = "writer", "secret-of-mosquitto"
END = b"end of the messages "


def connect(name, on_message=None):
    """Return a client; what comes is not acknowledged."""
    client = paho.Client(
        paho.CallbackAPIVersion.VERSION2, client_id=name, protocol=paho.MQTTv5, manual_ack=True
    )
    ready = threading.Event()
    client.username_pw_set(USER, PASSWORD)
    client.on_connect = lambda *_: client.subscribe(topic, 1) if name else ready.set()
    client.on_subscribe = lambda *_: ready.set()
    client.on_message = lambda _, __, message: on_message and on_message(message.payload)
    properties = Properties(PacketTypes.CONNECT)
    properties.SessionExpiryInterval = 3600 if name else 0
    properties.ReceiveMaximum = 65_535
    client.connect(
        "127.0.0.1", int(os.environ["KIT_MQTT"]), clean_start=not name, properties=properties
    )
    client.loop_start()
    assert ready.wait(SECONDS)
    return client


def send(client, lines):
    """Send lines, and wait until the broker has them."""
    for sent in [client.publish(topic, line, 1) for line in lines]:
        sent.wait_for_publish(SECONDS)


def close(client):
    client.disconnect()
    client.loop_stop()


command, topic, *rest = sys.argv[1:]
if command == "keep":
    close(connect(topic))
elif command == "add":
    sender = connect("")
    send(sender, Path(rest[0]).read_bytes().splitlines())
    close(sender)
else:
    end, payloads, is_whole = END + uuid.uuid4().bytes, [], threading.Event()

    def take(payload):
        payloads.append(payload)
        if payload == end:
            is_whole.set()

    reader = connect(topic, take)
    send(reader, [end])
    assert is_whole.wait(SECONDS)
    close(reader)
    for payload in payloads:
        if not payload.startswith(END):
            print(payload.decode())
