"""Lives of a task, each in a process of its own: writes numbered transactions, may die at a step.

    echo '{"config": {…}, "epoch": 1, "until": 9, "die": 4}' | python life.py

Each line of the input is a life. Everything the sink does to the database is a step; before the
given one the process kills itself. How it ended, as `subprocess` tells it, is printed.
Lives are forks of a process that has imported everything and connected to nothing: a start of
Python would be most of each.
"""

import itertools
import json
import os
import signal
import sys

import pyarrow as pa

from penstock_connector._config import parse_config
from penstock_databases.jdbc_sink import JdbcSink, JdbcSinkConfig
from penstock_databases.mysql.connection import MysqlConnection
from penstock_databases.mysql.writing import MysqlSession
from penstock_databases.postgresql.connection import PostgresqlConnection
from penstock_databases.postgresql.writing import PostgresqlSession
from penstock_databases.sqlite.connection import SqliteConnection
from penstock_databases.sqlite.writing import SqliteSession

SLOTS, ROWS = 2, 3
done = itertools.count(1)


def counted(kind, name, die):
    real = getattr(kind, name)

    def step(*arguments):
        if next(done) == die:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments)

    setattr(kind, name, step)


def rows(txn, slot):
    return pa.RecordBatch.from_pylist([{"v": f"{txn}.{slot}.{row}"} for row in range(ROWS)])


def main(config, epoch, until, die):
    for kind in (PostgresqlConnection, MysqlConnection, SqliteConnection):
        for name in ("execute", "changed", "begin", "commit"):
            counted(kind, name, die)
    for kind in (PostgresqlSession, MysqlSession, SqliteSession):
        counted(kind, "write", die)
    sink = JdbcSink()
    sink.init(parse_config(JdbcSinkConfig, config))
    sink.connect("task", epoch)
    last = int(sink.committed()[2]) if sink.committed() else 0
    schema = rows(0, 0).schema
    sink.apply_schema("t", schema, ())
    for txn in range(last + 1, until + 1):
        staged = []
        for slot in range(SLOTS):
            staging = sink.stage(txn, slot, 0, "t", schema)
            assert not staging.put(rows(txn, slot))
            staging.close()
            staged.append(staging)
        sink.prepare(txn, epoch, staged, str(txn).encode())
        sink.commit(txn, epoch, b"")
    sink.close()


def live(order):
    pid = os.fork()
    if not pid:
        main(**order)  # an error ends it as it ends every program: told on stderr, with status 1
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    for line in sys.stdin:
        print(live(json.loads(line)), flush=True)
