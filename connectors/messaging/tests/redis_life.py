"""A life of a plugin: it writes transactions as the host would, and may be killed at a step.

    python -P redis_life.py '{"config": {}, "epoch": 1, "until": 4, "txn": 3, "at": "sent"}'

It goes on after the token that the ledger has. A transaction is ten rows of numbers that follow.
"""

import json
import os
import signal
import sys

import pyarrow as pa

from penstock_connector._config import parse_config
from penstock_messaging import RedisSink

ROWS = 10
TASK = "test-0"
SCHEMA = pa.schema([("id", pa.int64()), ("txn", pa.int64())])


def die():
    os.kill(os.getpid(), signal.SIGKILL)


class Life:
    """A sink, as the SDK drives it."""

    def __init__(self, config, epoch, at="", task=TASK):
        self.sink, self.epoch, self.at = RedisSink(), epoch, at
        self.sink.init(parse_config(RedisSink.config_type, config))
        self.sink.connect(task, epoch)
        last = self.sink.committed()
        self.done = last[0] if last else 0
        self.sink.sweep(self.done)
        self.sink.apply_schema("t", SCHEMA, ["id"])
        self.txn = self.done

    def begin(self, txn=None):
        self.txn = txn or self.txn + 1

    def prepare(self, numbers):
        staging = self.sink.stage(self.txn, 0, 0, "t", SCHEMA)
        rows = [{"id": n, "txn": self.txn} for n in numbers]
        staging.put(pa.RecordBatch.from_pylist(rows, SCHEMA))
        staging.close()
        self.sink.prepare(self.txn, self.epoch, [staging], b"%d" % self.txn)

    def commit(self):
        self.sink.commit(self.txn, self.epoch, b"")
        self.done = self.txn

    def write(self, numbers):
        self.begin()
        self.prepare(numbers)
        self.commit()

    def run(self, until, at_txn=0):
        while self.done < until:
            self.begin()
            hit = self.at if self.txn == at_txn else ""
            self.prepare(range(self.done * ROWS, self.txn * ROWS))
            if hit == "prepared":
                die()
            if hit:
                self.arm(hit)
            self.commit()
        self.sink.close()

    def arm(self, hit):
        """Die before the script is sent, while it is on its way, or after its answer."""
        redis = self.sink._redis
        ask = redis._ask

        def dying(*command):
            if command[0] != "EVAL":
                return ask(*command)
            if hit == "before":
                die()
            if hit == "sent":
                connection = redis._client.connection_pool.get_connection()
                connection.send_command(*command)
                die()
            ask(*command)
            return die()

        redis._ask = dying


if __name__ == "__main__":
    order = json.loads(sys.argv[1])
    Life(order["config"], order["epoch"], order["at"]).run(order["until"], order["txn"])
