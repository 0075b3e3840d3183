"""A cluster in trouble: processes that are paused, killed, cut off; rows arrive once, in order.

All tests share one cluster; each has a flow of its own, and leaves everything healthy. Owners are
told by the ledger of the flow: a line of an older epoch after one of a newer is a defect.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.etcd import Etcd
from penstock.model.connector import ConnectorKind
from penstock_kit.testing import PenstockProcess
from support.cluster import READY, Cluster
from support.flow import SPARK, Flow

WORKERS = ("w1", "w2", "w3")
SCHEDULERS = ("s1", "s2")

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three members of etcd, two of each control service, three workers. Leases are long: a busy
    machine alone ends none.
    """
    folder = tmp_path_factory.mktemp("cluster")
    names = ("c1", "o1", *SCHEDULERS[:1])
    with Cluster(folder, etcd=3, names=names, **{"lease.ttl": "15s"}) as cluster:
        for name in ("c2", "o2", *SCHEDULERS[1:]):
            cluster.start(cluster.service_of(name), name)
        cluster.workers(*WORKERS, **SPARK)
        yield cluster


@pytest.fixture
def flow(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Flow]:
    """Rows that flow; checked at the end."""
    cluster.until(lambda: set(WORKERS) <= cluster.connected(), READY, "all workers to be there")
    name = request.node.name.removeprefix("test_").translate(str.maketrans("[", "-", "]"))
    flow = Flow(cluster, name, tasks=3)
    flow.start()
    flow.advance(50)
    yield flow
    flow.advance(50)
    flow.delete()


@contextmanager
def paused(process: PenstockProcess) -> Iterator[None]:
    """Stop a process without ending it."""
    process.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.signal(signal.SIGCONT)


def leading(cluster: Cluster) -> str:
    """Return the name of the scheduler that leads."""
    address = cluster.cluster().leader
    return next(n for n in SCHEDULERS if f"reached at {address}" in cluster.processes[n].output)


def moved_from(flow: Flow, worker: str) -> Callable[[], bool]:
    """Return whether every task runs, and none on a worker."""

    def moved() -> bool:
        owners = flow.owners().values()
        return bool(owners) and not any(o.startswith(f"{worker}-") or not o for o in owners)

    return moved


def test_a_paused_worker_is_fenced(cluster: Cluster, flow: Flow) -> None:
    """Its tasks begin elsewhere when its lease has ended; when it wakes up it lets go by itself,
    and takes part again.
    """
    victim = next(name for name in WORKERS if not moved_from(flow, name)())
    with paused(cluster.processes[victim]):
        cluster.until(moved_from(flow, victim), READY, "its tasks to move", flow.owners)
        flow.advance()
    cluster.until(
        lambda: "all tasks are cancelled" in cluster.processes[victim].output,
        READY,
        "it to notice that it is no member",
    )
    cluster.until(lambda: victim in cluster.connected(), READY, "it to take part again")
    flow.advance()


@pytest.mark.parametrize("fault", ["killed", "paused"])
def test_another_leader_restarts_nothing(cluster: Cluster, flow: Flow, fault: str) -> None:
    """Tasks do not notice that the leader went, and go on under the next one."""
    before, leader = flow.epochs(), leading(cluster)
    process = cluster.processes[leader]
    if fault == "killed":
        process.kill()
        cluster.until(lambda: leading(cluster) != leader, READY, "another leader")
        cluster.start("scheduler", leader)
    else:
        with paused(process):
            cluster.until(lambda: leading(cluster) != leader, READY, "another leader")
            cluster.until(lambda: set(WORKERS) <= cluster.connected(), READY, "sessions")
            flow.advance()
    cluster.until(lambda: set(WORKERS) <= cluster.connected(), READY, "sessions")
    flow.advance()
    assert flow.epochs() == before


@pytest.mark.parametrize("point", ["scheduler.storing_plans", "scheduler.stored_plans"])
def test_a_leader_that_is_killed_while_it_stores_plans_leaves_them_whole_or_as_they_were(
    cluster: Cluster, flow: Flow, point: str
) -> None:
    """The next one plans the connector, or finds its plans; no other connector notices."""
    before, leader = flow.epochs(), leading(cluster)
    other = next(name for name in SCHEDULERS if name != leader)
    cluster.processes[other].kill()
    doomed = cluster.start("scheduler", other, faults=f"{point}=kill@1")
    cluster.processes[leader].kill()
    cluster.until(lambda: leading(cluster) == other, READY, "the doomed one to lead")
    cluster.start("scheduler", leader)
    cluster.until(lambda: set(WORKERS) <= cluster.connected(), READY, "sessions")
    planned = Flow(cluster, f"{flow.name}-planned", tasks=3)
    planned.start()
    assert doomed.wait(READY) != 0
    assert leading(cluster) == leader
    cluster.start("scheduler", other)
    planned.advance(50)
    planned.delete()
    assert flow.epochs() == before


def test_a_fourth_worker_takes_its_share_and_nothing_else_moves(cluster: Cluster) -> None:
    """12 tasks on 3 workers: exactly 3 move to the fourth; 9 keep their epochs."""
    flow = Flow(cluster, "share", tasks=12)
    flow.start(**{"source.rate": 20})
    flow.even(4, *WORKERS)
    before = flow.epochs()
    cluster.workers("w4", **SPARK)
    flow.even(3, *WORKERS, "w4")
    after = flow.epochs()
    assert sum(after[id_] != before[id_] for id_ in before) == 3
    cluster.processes["w4"].stop(READY)
    flow.even(4, *WORKERS)
    assert sum(flow.epochs()[id_] != after[id_] for id_ in after) == 3
    flow.advance(20)
    flow.delete()


def test_etcd_away_for_less_than_a_lease_changes_nothing(cluster: Cluster, flow: Flow) -> None:
    """No task moves."""
    before = flow.epochs()
    etcd_away(cluster, 2.0)
    flow.advance()
    assert flow.epochs() == before


def test_etcd_away_for_longer_ends_all_tasks_and_brings_them_back(
    cluster: Cluster, flow: Flow
) -> None:
    """Workers fence themselves, and recover without anybody's help. Who is back before the leader
    has looked has the same tasks at the same epochs; their lives are told apart by their claims.
    """
    before = flow.epochs()
    etcd_away(cluster, 20.0)
    cluster.until(lambda: set(WORKERS) <= cluster.connected(), READY, "workers to be back")
    flow.advance()
    assert all(flow.epochs()[id_] >= epoch for id_, epoch in before.items())
    for name in WORKERS:
        assert "all tasks are cancelled" in cluster.processes[name].output


def etcd_away(cluster: Cluster, seconds: float) -> None:
    """Stop every member of etcd for a time: the length of the outage is what is tested."""
    for number in range(3):
        cluster.etcd.pause(number)
    time.sleep(seconds)
    for number in range(3):
        cluster.etcd.resume(number)


def test_one_member_of_etcd_killed(cluster: Cluster, flow: Flow) -> None:
    """Also when it leads: rows flow on, no task moves."""
    before = flow.epochs()
    victim = cluster.etcd.leader()
    cluster.etcd.kill(victim)
    flow.advance()
    cluster.etcd.start(victim)
    assert flow.epochs() == before


def test_a_worker_whose_lease_is_revoked_fences_itself_and_goes_on(
    cluster: Cluster, flow: Flow
) -> None:
    """An operator ends its membership. It is a member again within milliseconds: if the leader sees
    the gap, its tasks get newer epochs, else they begin anew at the same ones.
    """
    victim = next(name for name in WORKERS if not moved_from(flow, name)())
    before, printed = flow.epochs(), len(cluster.processes[victim].output)

    async def revoke(etcd: Etcd) -> None:
        found = await etcd.range(f"{etcd.prefix}members/worker/{victim}-")
        await etcd.revoke_lease(found.entries[0].lease)

    cluster.in_etcd(revoke)
    cluster.until(
        lambda: "is registered again" in cluster.processes[victim].output[printed:],
        READY,
        "it to notice that it was no member",
    )
    cluster.until(lambda: set(WORKERS) <= cluster.connected(), READY, "it to take part again")
    flow.advance()
    assert all(flow.epochs()[id_] >= epoch for id_, epoch in before.items())


@pytest.mark.parametrize("service", ["config", "offset", "scheduler"])
def test_all_instances_of_a_service_restarted(cluster: Cluster, flow: Flow, service: str) -> None:
    """Rows flow on when they are back; nothing is lost or repeated. All workers, and all processes:
    `system/test_cluster_bounce.py`.
    """
    names = [name for name in cluster.processes if cluster.service_of(name) == service]
    before = members(cluster, service)
    for name in names:
        cluster.processes[name].kill()
    for name in names:
        cluster.start(service, name)
    cluster.until(lambda: len(members(cluster, service) - before) == len(names), READY, "members")
    flow.advance()


def test_two_hundred_connectors_come_and_go(cluster: Cluster, flow: Flow) -> None:
    """Nothing is left of them: no process, no key, no socket, no file; an instance of the config
    service is killed meanwhile. Offsets of those that ran are kept for a while.
    """
    for name in ("o1", "o2"):
        cluster.start("offset", name, **{"offsets.deleted.retention": "1s"})
    flow.advance()
    before, counted = keys(cluster), census(cluster)
    for n in range(200):
        name = f"brief-{n}"
        config = {"connector.class": "verifiable-source", "rows": 1, "topic": "brief"}
        cluster.create(name, config, ConnectorKind.SOURCE)
        if n % 10 == 0:
            cluster.until(lambda name=name: cluster.status(name), READY, "to be known")
        if n == 100:
            cluster.processes["c1"].kill()
            cluster.start("config", "c1")
        cluster.config(lambda config, name=name: config.delete(name))
    left: set[str] = set()

    def clean() -> bool:
        left.clear()
        left.update(key for key in keys(cluster) - before if "/event/" not in key)
        return not left and not more_than(counted, census(cluster))

    cluster.until(clean, READY, "nothing to be left", lambda: (sorted(left)[:10], census(cluster)))


def test_a_worker_whose_jvm_is_killed_goes_on(cluster: Cluster, flow: Flow) -> None:
    """D13: its process replaces itself, takes part again, and no row is lost or repeated."""
    worker = cluster.processes["w1"]
    (jvm,) = (process for process in worker.process_tree() if process.program == "java")
    os.kill(jvm.pid, signal.SIGKILL)

    def another() -> bool:
        java = [process for process in worker.process_tree() if process.program == "java"]
        return bool(java) and java[0].identity != jvm.identity

    cluster.until(another, READY, "another JVM")
    cluster.until(lambda: set(WORKERS) <= cluster.connected(), READY, "it to take part again")
    flow.even(1, *WORKERS)
    flow.advance()


def keys(cluster: Cluster) -> set[str]:
    """Return the keys of the cluster in etcd, without those that come and go by themselves."""

    async def read(etcd: Etcd) -> set[str]:
        found = await etcd.range(etcd.prefix)
        return {kv.key for kv in found.entries}

    changing = ("/members/", "/elections/")
    return {key for key in cluster.in_etcd(read) if not any(part in key for part in changing)}


def members(cluster: Cluster, service: str) -> set[str]:
    """Return the keys of a service's instances, also of those whose leases outlive them."""

    async def read(etcd: Etcd) -> set[str]:
        found = await etcd.range(f"{etcd.prefix}members/{service}/")
        return {kv.key for kv in found.entries}

    return cluster.in_etcd(read)


def census(cluster: Cluster) -> dict[str, int]:
    """Return how many processes and open files (sockets too) workers have, and files of their own.
    The flow that goes on has some of all.
    """
    family = [process for name in WORKERS for process in cluster.processes[name].process_tree()]
    opened = (opened_by(process.pid) for process in family)
    files = (path for path in cluster.folder.glob("*-w*/**/*") if path.is_file())
    return {"processes": len(family), "open": sum(opened), "files": sum(1 for _ in files)}


def opened_by(pid: int) -> int:
    """Return how many files a process has open; one that has ended has none, and a plugin shows
    them to root alone.
    """
    try:
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))
    except (FileNotFoundError, PermissionError):
        return 0


def more_than(before: dict[str, int], now: dict[str, int]) -> list[str]:
    """Return what there is more of. Spark's Python workers and open files come and go, but not one
    for each connector, nor for each tenth, which ran.
    """
    slack = {"processes": 3, "open": 50, "files": 20}
    return [what for what, some in slack.items() if now[what] > before[what] + some]
