"""Queues for the conformance kit: `add QUEUE FILE` sends lines as messages, `show QUEUE` prints the
bodies of all messages and leaves them there. KIT_ACTIVEMQ is the URL of a broker of Artemis.
"""

import os
import sys
from pathlib import Path

from penstock_amqp.config import BrokerConfig
from penstock_amqp.connection import Connection
from penstock_amqp.frames import encode_frame

USER, PASSWORD = "mover", "secret-of-activemq"
CONFIG = BrokerConfig(
    activemq_url=os.environ["KIT_ACTIVEMQ"], activemq_username=USER, activemq_password=PASSWORD
)
IDLE_S = 0.5


def add(queue, lines):
    """Send lines."""
    connection = Connection.open(CONFIG.dialing())
    head = f"SEND\ndestination:{queue}\ndestination-type:ANYCAST\ntransaction:t\n\n".encode()
    data = b"".join(head + line + b"\x00" for line in lines)
    begin = encode_frame("BEGIN", {"transaction": "t"})
    connection.call(begin + data, "COMMIT", {"transaction": "t"}, "the messages")
    connection.close()


def show(queue):
    """Print the bodies of a queue."""
    connection = Connection.open(CONFIG.dialing())
    headers = {"id": "0", "ack": "client", "destination": queue, "subscription-type": "ANYCAST"}
    connection.send(encode_frame("SUBSCRIBE", {**headers, "consumer-window-size": "-1"}))
    while frames := connection.receive(IDLE_S):
        for one in frames:
            print(one.body.decode())
    connection.close()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["add", queue, file]:
            add(queue, Path(file).read_bytes().splitlines())
        case ["show", queue]:
            show(queue)
