"""A cluster whose state is in PostgreSQL."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.model.connector import TargetState
from penstock.model.status import RunState
from penstock_kit.testing import read_ledger
from support.cluster import READY, Cluster
from support.flow import SPARK, Flow
from support.postgresql import PostgresqlServer


@pytest.mark.timeout(300)
def test_broker_compatibility(tmp_path: Path) -> None:
    """What a broker is to Kafka Connect, a store is here: rows flow on when it comes back, each
    once. Versions that are too old are refused (`contract/store/test_format.py`).
    """
    with PostgresqlServer() as server:
        url = server.settings().url.reveal()
        store = {"store": "postgresql", "store.url": url}
        with Cluster(tmp_path, plain=True, store=store) as cluster:
            cluster.workers("w1", **SPARK)
            flow = Flow(cluster, tasks=2)
            flow.start()
            flow.advance()
            before = flow.epochs()
            server.kill()
            server.start()
            flow.advance()
            assert flow.epochs() == before
            began_anew(flow)
            assert url not in "".join(p.output for p in cluster.processes.values())
            cluster.config(lambda config: config.delete(flow.name))


def began_anew(flow: Flow) -> None:
    """Stop, reset and start: what fences the tasks before lets the next ones begin, although
    PostgreSQL's counter, which connectors and offsets share, is far ahead of what epochs are from.
    """
    cluster, name = flow.cluster, flow.name
    flow.report().require()
    stored = cluster.config(lambda config: config.set_target_state(name, TargetState.STOPPED))

    def stopped() -> bool:
        held = cluster.scheduler(lambda client: client.list_held_tasks(stored.generation)).tasks
        status = cluster.status(name)
        return not held and status is not None and status.state is RunState.STOPPED

    cluster.until(stopped, READY, f"{name} to stop", lambda: cluster.status(name))
    arrived = len(read_ledger(flow.ledger).entries)
    cluster.offset(lambda offset: offset.reset(name, stored.generation))
    cluster.config(lambda config: config.set_target_state(name, TargetState.RUNNING))
    cluster.running(name, flow.tasks)
    flow.advance()
    again = read_ledger(flow.ledger).entries[arrived:]
    first = {entry.partition: entry.sequences[0][0] for entry in reversed(again)}
    assert first == dict.fromkeys(map(str, range(flow.tasks)), 0)
