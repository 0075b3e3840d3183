"""A life of a plugin: it writes transactions as the host would, and may be killed at a step.

    python -P clickhouse_life.py '{"config": {}, "epoch": 1, "until": 4, "txn": 3, "at": "put"}'

It goes on after the token that the sink has. A transaction is ten rows: new ones in `log`, the same
ten keys in `state`.
"""

import json
import os
import signal
import sys

import pyarrow as pa

from penstock_analytics.clickhouse_sink import ClickHouseSink
from penstock_connector._config import parse_config

ROWS = 10


def die():
    os.kill(os.getpid(), signal.SIGKILL)


class Dying:
    """A session whose process ends before a statement, or after it and before its answer."""

    def __init__(self, inner, at):
        self._inner = inner
        self._when, _, self._statement = at.partition(" ")
        self.armed = False

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def execute(self, sql, settings=None):
        self._around(sql, lambda: self._inner.execute(sql, settings))

    def insert(self, sql, data, settings):
        self._around(sql, lambda: self._inner.insert(sql, data, settings))

    def _around(self, sql, act):
        hit = self.armed and self._statement and sql.replace("`", "").startswith(self._statement)
        if hit and self._when == "before":
            die()
        act()
        if hit and self._when == "after":
            die()


class Life:
    """A sink, as the SDK drives it."""

    def __init__(self, config, epoch, at="", task="test-0"):
        self.sink, self.epoch, self.at = ClickHouseSink(), epoch, at
        self.sink.init(parse_config(ClickHouseSink.config_type, config))
        self.sink.connect(task, epoch)
        self.sink._session = self.sink._ledger._session = Dying(self.sink._session, at)
        last = self.sink.committed()
        self.txn, self.done = (last[0], int(last[2])) if last else (0, 0)
        self.sink.sweep(self.txn)

    def step(self, name):
        if self.sink._session.armed and self.at == name:
            die()

    def stage(self, slot, dataset, ids):
        rows = pa.record_batch({"id": ids, "txn": [self.done] * len(ids)})
        self.sink.apply_schema(dataset, rows.schema, ())
        staging = self.sink.stage(self.txn, slot, 0, dataset, rows.schema)
        assert not staging.put(rows)
        staging.close()
        return staging

    def begin(self):
        self.done, self.txn = self.done + 1, self.txn + 1

    def prepare(self, staged):
        return self.sink.prepare(self.txn, self.epoch, staged, str(self.done).encode())

    def end(self, staged):
        self.step("put")
        state = self.prepare(staged)
        self.step("prepared")
        self.sink.commit(self.txn, self.epoch, state)
        self.step("committed")

    def write(self, dataset, ids):
        """A transaction with some rows of one dataset."""
        self.begin()
        self.end([self.stage(0, dataset, ids)])

    def run(self, until, txn=0):
        """Write up to a transaction; the step is at `txn`."""
        while self.done < until:
            self.begin()
            self.sink._session.armed = self.done == txn
            log = range(self.done * ROWS, self.done * ROWS + ROWS)
            self.end([self.stage(0, "log", log), self.stage(1, "state", range(ROWS))])
        self.sink.close()


if __name__ == "__main__":
    order = json.loads(sys.argv[1])
    Life(order["config"], order["epoch"], order["at"]).run(order["until"], order["txn"])
