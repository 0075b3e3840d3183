"""A table that is changed all the time, followed into another database: every process and both
servers are killed, connections are cut, and in the end the tables are equal, deletes included.
"""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from chaos.replica import MOVED, ROWS, Ends, Maria, Postgres, Replica, rows_of
from penstock_kit.testing import PenstockProcess, wait_until
from penstock_kit.testing.process_tree import read_process
from support.cutting import CuttingProxy
from system.pipelines import nothing_left

pytestmark = pytest.mark.timeout(400)


@pytest.fixture
def maria():
    with Maria() as server:
        yield server


@pytest.fixture
def postgres():
    with Postgres() as server:
        yield server


@pytest.fixture(params=["mysql-cdc", "postgres-cdc"])
def ends(request: pytest.FixtureRequest, maria: Maria, postgres: Postgres) -> Ends:
    """Each database as the source, the other as the target."""
    return Ends(maria, postgres) if request.param == "mysql-cdc" else Ends(postgres, maria)


def kill_plugin(process: PenstockProcess, name: str) -> None:
    """End the plugin of one end, the last one that the log names."""
    started = re.findall(rf"plugin \w+/{name} \S+ started, process (\d+)", process.output)
    victim = read_process(int(started[-1]))
    assert victim, f"{name} has ended"
    os.kill(victim.pid, signal.SIGKILL)


def more(replica: Replica, process: PenstockProcess, stage: str) -> None:
    """Wait until the target has changed."""
    before = rows_of(replica.ends.target)
    process.wait_for(lambda: rows_of(replica.ends.target) not in (before, None), MOVED, stage)


def test_kills_in_the_snapshot_at_its_end_and_after_it(tmp_path: Path, ends: Ends) -> None:
    """The worker between two steps of a commit and anywhere, each plugin, while rows change."""
    replica = Replica(tmp_path, ends)
    with replica.changing(seed=1):
        for step in ("worker.sink_written=kill@2", "worker.txn_committed=kill@3"):
            replica.kill_at(step)
            assert replica.count() < ROWS * 0.7, "it was not in the snapshot any more"
        with replica.running() as process:
            more(replica, process, "rows of the snapshot")
            kill_plugin(process, replica.ends.source.kind)
            process.wait_for(lambda: replica.count() > ROWS * 0.75, MOVED, "the hand-over")
            process.kill()
        with replica.running() as process:
            more(replica, process, "the first changes")
            for name in (replica.ends.source.kind, "jdbc-sink") * 2:
                kill_plugin(process, name)
                more(replica, process, f"changes after the end of {name}")
            process.kill()
    assert not replica.same(), "the kill came after the last change"
    with replica.running() as process:
        process.wait_for(replica.same, MOVED, "both tables to be equal")
        process.stop()
        nothing_left(process)
    with ends.target.connect() as connection:
        connection.cursor().execute(
            "UPDATE accounts SET price = 0 WHERE id = (SELECT * FROM "
            "(SELECT MAX(id) FROM accounts) AS last)"
        )
        connection.commit()
    assert not replica.same(), "the comparison sees one value of one row"


def test_servers_killed_and_connections_cut(tmp_path: Path, ends: Ends) -> None:
    """The source's server, the target's, and every connection to either, while rows change."""
    with CuttingProxy(ends.source.port) as source, CuttingProxy(ends.target.port) as target:
        replica = Replica(tmp_path, Ends(ends.source, ends.target, source.port, target.port))
        with replica.running() as process:
            with replica.changing(seed=2):
                for proxy in (source, target) * 2:
                    more(replica, process, "changes before a cut")
                    process.wait_for(proxy.cut, MOVED, "a connection to cut")
                for server in (ends.target, ends.source):
                    more(replica, process, "changes before a server dies")
                    server.kill()
                    server.start()
                more(replica, process, "changes after the last fault")
            process.wait_for(replica.same, MOVED, "both tables to be equal")
            assert process.returncode is None
            process.stop()
        wait_until(lambda: not process.leftovers().processes, 60, "its processes to end")
