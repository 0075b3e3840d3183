"""Streams for the conformance kit, with KIT_NATS as the port of a server.

stream.py keep STREAM         # creates a stream
stream.py add STREAM FILE     # sends lines as messages
stream.py show STREAM         # prints what it has
"""

import base64
import json
import os
import sys
from pathlib import Path

from penstock_connector._config import parse_config
from penstock_messaging.nats.config import NatsConfig
from penstock_messaging.nats.connection import Connection

USER, PASSWORD = "writer", "secret-of-nats"


def ask(verb, body):
    """Return the answer to a request of JetStream."""
    found = json.loads(server.request(f"$JS.API.{verb}", json.dumps(body).encode(), what=verb)[4])
    assert "error" not in found, found
    return found


command, stream, *rest = sys.argv[1:]
keys = {
    "nats.servers": f"nats://127.0.0.1:{os.environ['KIT_NATS']}",
    "nats.username": USER,
    "nats.password": PASSWORD,
    "nats.stream": stream,
}
server = Connection.open(parse_config(NatsConfig, keys).dialing())
if command == "keep":
    ask(f"STREAM.CREATE.{stream}", {"name": stream, "subjects": [stream], "storage": "file"})
elif command == "add":
    for line in Path(rest[0]).read_bytes().splitlines():
        server.request(stream, line, what="a message")
else:
    last = ask(f"STREAM.INFO.{stream}", {})["state"]["last_seq"]
    for number in range(1, last + 1):
        message = ask(f"STREAM.MSG.GET.{stream}", {"seq": number})["message"]
        print(base64.b64decode(message.get("data", "")).decode())
server.close()
