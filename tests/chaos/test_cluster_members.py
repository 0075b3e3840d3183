"""Workers that leave and come back: whose tasks move, and whose never notice.

The leader waits a while for a lost worker (`rebalance.delay`); one that leaves in order is not
waited for.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.etcd import Etcd
from support.cluster import READY, Cluster
from support.flow import SPARK, Flow

WORKERS = ("w1", "w2", "w3")
TASKS = 6

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three workers, and a leader that waits for one that is lost: long enough for a slow start."""
    with Cluster(tmp_path_factory.mktemp("cluster"), plain=True, **{"lease.ttl": "15s"}) as cluster:
        cluster.start("scheduler", "scheduler", **{"rebalance.delay": "60s"})
        cluster.workers(*WORKERS, **SPARK)
        yield cluster


@pytest.fixture
def flow(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Flow]:
    """Two tasks on each worker, checked at the end."""
    flow = Flow(cluster, request.node.name.removeprefix("test_"), tasks=TASKS)
    flow.start(**{"source.rate": 30})
    flow.even(2, *WORKERS)
    yield flow
    flow.advance(20)
    flow.delete()


def gone(cluster: Cluster, name: str) -> None:
    """Wait until the leader has no session with a worker, and its membership has ended: until then
    a worker of the same name counts as one more, which takes a share from the others.
    """

    async def registered(etcd: Etcd) -> int:
        return len((await etcd.range(f"{etcd.prefix}members/worker/{name}-")).entries)

    cluster.until(lambda: name not in cluster.connected(), READY, f"{name} to be missed")
    cluster.until(lambda: not cluster.in_etcd(registered), READY, f"the lease of {name} to end")


def test_two_of_three_leave_and_come_back(cluster: Cluster, flow: Flow) -> None:
    """S2: only tasks of those that leave move, and only so many return as make it even."""
    before, owners = flow.epochs(), flow.owners()
    for name in ("w2", "w3"):
        assert cluster.processes[name].stop(READY) == 0
    flow.even(TASKS, "w1")
    alone = flow.epochs()
    assert {id_ for id_ in before if alone[id_] == before[id_]} == {
        id_ for id_, owner in owners.items() if owner.startswith("w1-")
    }
    cluster.workers("w2", "w3", **SPARK)
    flow.even(2, *WORKERS)
    assert sum(flow.epochs()[id_] == epoch for id_, epoch in alone.items()) == 2


def test_a_lost_worker_that_comes_back_in_time_has_its_tasks_again(
    cluster: Cluster, flow: Flow
) -> None:
    """S3: nobody else's task moves."""
    before, owners = flow.epochs(), flow.owners()
    cluster.processes["w1"].kill()
    gone(cluster, "w1")
    cluster.workers("w1", **SPARK)
    flow.even(2, *WORKERS)
    after = flow.epochs()
    moved = {id_ for id_ in before if after[id_] != before[id_]}
    lost = {id_ for id_, owner in owners.items() if owner.startswith("w1-")}
    assert moved == lost, cluster.logs()
    assert {flow.owners()[id_].partition("-")[0] for id_ in moved} == {"w1"}


def test_a_lost_worker_that_stays_away_is_replaced_after_the_delay(
    cluster: Cluster, flow: Flow
) -> None:
    """S3: its tasks begin elsewhere, each once; nobody else's moves."""
    before, owners = flow.epochs(), flow.owners()
    cluster.processes["w1"].kill()
    flow.even(TASKS // 2, "w2", "w3")
    after = flow.epochs()
    moved = {id_ for id_ in before if after[id_] != before[id_]}
    lost = {id_ for id_, owner in owners.items() if owner.startswith("w1-")}
    assert moved == lost, cluster.logs()
    flow.advance(20)
    # as the tasks themselves wrote it: two owners in a row, no third
    assert {id_: flow.epochs_in_ledger()[id_] for id_ in moved} == {
        id_: [before[id_], after[id_]] for id_ in moved
    }
    cluster.workers("w1", **SPARK)
    flow.even(2, *WORKERS)
