"""Topics for the conformance kit: `add TOPIC FILE` sends lines as messages, `show TOPIC` prints the
bodies of all messages. KIT_ROCKETMQ is the address of a name server.
"""

import os
import sys
import time
from pathlib import Path

from penstock_rocketmq.cluster import Cluster
from penstock_rocketmq.config import ClusterConfig
from penstock_rocketmq.frames import Request
from penstock_rocketmq.storage import decode_messages, encode_message

USER, PASSWORD = "writer", "secret-of-rocketmq"
CLUSTER = Cluster(
    ClusterConfig(namesrv_addr=(os.environ["KIT_ROCKETMQ"],), access_key=USER, secret_key=PASSWORD)
)


def add(topic, lines):
    """Send lines; the topic is created."""
    CLUSTER.ensure_topic(topic, 1)
    ((_, address),) = CLUSTER.route(topic).masters.items()
    fields = {
        "a": "kit", "b": topic, "c": topic, "d": "1", "e": "0", "f": "0",
        "g": str(time.time_ns() // 1_000_000), "h": "0", "i": "", "j": "0", "k": "false",
        "m": "true",
    }  # fmt: skip
    body = b"".join(encode_message(line, b"") for line in lines)
    said = CLUSTER.remoting.channel(address).call(
        Request.SEND_BATCH_MESSAGE, fields, "send", body=body
    )
    assert said.code == 0, said.remark


def show(topic):
    """Print the bodies of a topic that may not exist."""
    route = CLUSTER.route(topic)
    if route is None:
        return
    ((_, address),) = route.masters.items()
    at, high = CLUSTER.bounds(address, topic, 0)
    while at < high:
        fields = {
            "consumerGroup": "TOOLS_CONSUMER", "topic": topic, "queueId": "0",
            "queueOffset": str(at), "maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0",
            "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0",
            "expressionType": "TAG",
        }  # fmt: skip
        said = CLUSTER.ask(address, Request.PULL_MESSAGE, fields, "pull")
        for body in decode_messages(said.body).bodies:
            print(body.decode())
        at = said.number("nextBeginOffset")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["add", topic, file]:
            add(topic, Path(file).read_bytes().splitlines())
        case ["show", topic]:
            show(topic)
