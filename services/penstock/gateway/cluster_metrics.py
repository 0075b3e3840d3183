"""`/metrics`: metric families of connectors, workers and processes for Prometheus.

The gateway counts nothing itself. Workers report task metrics to the scheduler leader, and each
process returns its own.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from fastapi import APIRouter
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import Metric

from penstock.gateway import task_metrics
from penstock.gateway.access.guard import Caller
from penstock.gateway.clients import Clients, ProcessReports
from penstock.gateway.task_metrics import (
    KAFKA_PREFIX,
    TaskEntry,
    counter,
    gauge,
    reads_topic,
    task_labels,
)
from penstock.model.metrics import METRIC_FAMILIES, MetricFamily
from penstock.model.status import ClusterStatus, ConnectorStatus, RunState

MAX_TASKS: Final = 5_000
"""Tasks with series of their own: some 60 numbers each, 25 MB of text in all (invariant 12)."""


def cluster_families(
    cluster: ClusterStatus, statuses: Sequence[ConnectorStatus]
) -> Iterator[Metric]:
    """Yield the families of the cluster, its connectors and their tasks."""
    tasks = [(status, task) for status in statuses for task in status.tasks]
    listed = tasks if len(tasks) <= MAX_TASKS else []
    left_out = len(tasks) - len(listed)
    yield gauge("penstock_tasks_left_out", "Tasks without series of their own.", [({}, left_out)])
    yield from _connector_families(statuses)
    yield from _task_state_families(listed)
    yield from task_metrics.task_families(listed)
    yield from _worker_families(cluster, statuses)


def _connector_families(statuses: Sequence[ConnectorStatus]) -> Iterator[Metric]:
    yield gauge(
        "penstock_connector_state",
        "1 for the present state of a connector.",
        [
            ({"connector": s.name, "kind": s.kind.name.lower(), "state": s.state.name.lower()}, 1)
            for s in statuses
        ],
    )
    yield gauge(
        f"{KAFKA_PREFIX}connector_status",
        "1 for the present state of a connector.",
        [({"connector": s.name, "status": _kafka_state(s.state)}, 1) for s in statuses],
    )
    yield gauge(
        f"{KAFKA_PREFIX}connector_connector_type",
        "1 for the type of a connector.",
        [
            ({"connector": s.name, "connector_type": "sink" if reads_topic(s) else "source"}, 1)
            for s in statuses
        ],
    )
    for state in ("running", "paused", "failed", "unassigned", "restarting"):
        yield gauge(
            f"{KAFKA_PREFIX}worker_connector_{state}_task_count",
            f"Tasks of a connector that are {state}.",
            [({"connector": s.name}, _count_states(s)[state]) for s in statuses],
        )
    yield gauge(
        f"{KAFKA_PREFIX}worker_connector_total_task_count",
        "Tasks of a connector.",
        [({"connector": s.name}, len(s.tasks)) for s in statuses],
    )


def _task_state_families(tasks: Sequence[TaskEntry]) -> Iterator[Metric]:
    yield gauge(
        "penstock_task_state",
        "1 for the present state of a task and its worker.",
        [
            ({**task_labels(s, t), "state": t.state.name.lower(), "worker": t.worker}, 1)
            for s, t in tasks
        ],
    )
    yield counter(
        "penstock_task_restarts",
        "Restarts of a task after an error.",
        [(task_labels(s, t), t.restarts) for s, t in tasks],
    )
    yield gauge(
        f"{KAFKA_PREFIX}connector_task_status",
        "1 for the present state of a task.",
        [({**task_labels(s, t), "status": _kafka_state(t.state)}, 1) for s, t in tasks],
    )


def _worker_families(
    cluster: ClusterStatus, statuses: Sequence[ConnectorStatus]
) -> Iterator[Metric]:
    names = [({"worker": w.name or w.id}, w) for w in cluster.workers]
    yield gauge(
        "penstock_worker_connected",
        "Whether a worker has a session with the leader.",
        [(labels, int(worker.connected)) for labels, worker in names],
    )
    yield gauge(
        "penstock_worker_draining",
        "Whether a worker is draining.",
        [(labels, int(worker.draining)) for labels, worker in names],
    )
    yield gauge(
        "penstock_worker_tasks",
        "Tasks of a worker.",
        [(labels, worker.tasks) for labels, worker in names],
    )
    yield gauge("penstock_tasks_unassigned", "Tasks without a worker.", [({}, cluster.unassigned)])
    yield gauge("penstock_tasks_moving", "Tasks that change their worker.", [({}, cluster.moving)])
    counts = len(statuses), sum(len(status.tasks) for status in statuses)
    yield gauge(f"{KAFKA_PREFIX}worker_connector_count", "Connectors.", [({}, counts[0])])
    yield gauge(f"{KAFKA_PREFIX}worker_task_count", "Tasks.", [({}, counts[1])])
    yield gauge(f"{KAFKA_PREFIX}worker_rebalance_epoch", "Revision.", [({}, cluster.revision)])
    yield gauge(
        f"{KAFKA_PREFIX}worker_rebalance_leader_name", "1.", [({"leader_name": cluster.leader}, 1)]
    )
    yield gauge(
        f"{KAFKA_PREFIX}worker_rebalance_rebalancing",
        "Whether tasks change their worker.",
        [({}, int(cluster.moving > 0))],
    )
    done, help_ = cluster.rebalances, "Completed rebalances."
    yield counter(
        f"{KAFKA_PREFIX}worker_rebalance_completed_rebalances", help_, [({}, done.completed)]
    )
    for word, seconds in (("avg", done.mean_s), ("max", done.max_s)):
        name = f"{KAFKA_PREFIX}worker_rebalance_rebalance_{word}_time_ms"
        yield gauge(name, "Milliseconds of a rebalance.", [({}, seconds * 1000)])


def _count_states(status: ConnectorStatus) -> Counter[str]:
    return Counter(_kafka_state(task.state) for task in status.tasks)


def _kafka_state(state: RunState) -> str:
    """Return Kafka Connect's name of a state. Its tasks never complete."""
    known = {RunState.COMPLETED: "running", RunState.UNSPECIFIED: "unassigned"}
    return known.get(state, state.name.lower())


def process_families(reports: ProcessReports) -> Iterator[Metric]:
    """Yield the families of processes."""
    yield gauge("penstock_processes", "Processes of a service.", _by_service(reports.counts))
    silent = {service: reports.silent.get(service, 0) for service in reports.counts}
    yield gauge(
        "penstock_processes_silent",
        "Processes of a service that did not return their metrics in time.",
        _by_service(silent),
    )
    yield gauge(
        "penstock_processes_left_out",
        "Processes that are not called for their metrics.",
        [({}, reports.left_out)],
    )
    for name, family in METRIC_FAMILIES.items():
        samples = list(_samples(reports, name, family))
        yield (counter if family.is_counter else gauge)(family.name, family.help, samples)


def _by_service(counts: Mapping[str, int]) -> list[tuple[Mapping[str, str], float]]:
    return [({"service": service}, count) for service, count in sorted(counts.items())]


def _samples(
    reports: ProcessReports, name: str, family: MetricFamily
) -> Iterator[tuple[Mapping[str, str], float]]:
    named = Counter((one.service, one.name) for one in reports.reports)
    for one in reports.reports:
        # the name survives a restart, so its series continue; the id replaces it if not unique
        process = one.name if named[one.service, one.name] == 1 else one.id
        for number in one.numbers:
            if number.name == name:
                # a process of another version may have other labels; a family needs the same ones
                labels = {label: number.labels.get(label, "") for label in family.labels}
                yield {"service": one.service, "process": process, **labels}, number.value


router = APIRouter(tags=["cluster"])

_TEXT: Final = {"text/plain": {"schema": {"type": "string"}}}


class _FixedCollector:
    """A collector of metric families that exist already."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterable[Metric]:
        """Return the families."""
        return self._families


@router.get("/metrics", responses={200: {"content": _TEXT, "description": "Text of Prometheus."}})
async def get_metrics(clients: Clients, caller: Caller) -> Response:
    """Return the metrics of connectors, tasks, workers and processes."""
    cluster, statuses, answers = await asyncio.gather(
        clients.scheduler.get_cluster(),
        clients.scheduler.list_statuses(""),
        clients.processes.collect_metrics(),
    )
    families = chain(
        cluster_families(cluster, caller.filter_visible(statuses)), process_families(answers)
    )
    text = await asyncio.to_thread(format_families, families)  # the text may be long
    return Response(text, media_type=CONTENT_TYPE_LATEST)


def format_families(families: Iterable[Metric]) -> bytes:
    """Return metric families in the text format of Prometheus."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_FixedCollector(families))
    return generate_latest(registry)
