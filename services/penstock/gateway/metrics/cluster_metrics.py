"""What is measured of connectors, workers and processes, as Prometheus takes it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from prometheus_client.core import Metric

from penstock.gateway.clients import Answers
from penstock.gateway.metrics import task_metrics
from penstock.gateway.metrics.task_metrics import (
    KAFKA,
    OfTask,
    counter,
    gauge,
    labels_of,
    reads_topic,
)
from penstock.model.metrics import FAMILIES, Family
from penstock.model.status import ClusterStatus, ConnectorStatus, RunState

MOST_TASKS: Final = 5_000
"""Tasks that are told one by one: some 60 numbers each, 25 MB of text in all (invariant 12)."""


def measured(cluster: ClusterStatus, statuses: Sequence[ConnectorStatus]) -> Iterator[Metric]:
    """Yield all that is measured."""
    tasks = [(status, task) for status in statuses for task in status.tasks]
    told = tasks if len(tasks) <= MOST_TASKS else []
    left_out = len(tasks) - len(told)
    yield gauge("penstock_tasks_left_out", "Tasks that are not told one by one.", [({}, left_out)])
    yield from _connectors(statuses)
    yield from _states(told)
    yield from task_metrics.measured(told)
    yield from _workers(cluster, statuses)


def _connectors(statuses: Sequence[ConnectorStatus]) -> Iterator[Metric]:
    yield gauge(
        "penstock_connector_state",
        "1 for the state that a connector is in.",
        [
            ({"connector": s.name, "kind": s.kind.name.lower(), "state": s.state.name.lower()}, 1)
            for s in statuses
        ],
    )
    yield gauge(
        f"{KAFKA}connector_status",
        "1 for the state that a connector is in.",
        [({"connector": s.name, "status": _state(s.state)}, 1) for s in statuses],
    )
    yield gauge(
        f"{KAFKA}connector_connector_type",
        "1 for what a connector is.",
        [
            ({"connector": s.name, "connector_type": "sink" if reads_topic(s) else "source"}, 1)
            for s in statuses
        ],
    )
    for state in ("running", "paused", "failed", "unassigned", "restarting"):
        yield gauge(
            f"{KAFKA}worker_connector_{state}_task_count",
            f"Tasks of a connector that are {state}.",
            [({"connector": s.name}, _counted(s)[state]) for s in statuses],
        )
    yield gauge(
        f"{KAFKA}worker_connector_total_task_count",
        "Tasks of a connector.",
        [({"connector": s.name}, len(s.tasks)) for s in statuses],
    )


def _states(tasks: Sequence[OfTask]) -> Iterator[Metric]:
    yield gauge(
        "penstock_task_state",
        "1 for the state that a task is in, and the worker that has it.",
        [
            ({**labels_of(s, t), "state": t.state.name.lower(), "worker": t.worker}, 1)
            for s, t in tasks
        ],
    )
    yield counter(
        "penstock_task_restarts",
        "Times that a task began anew after an error.",
        [(labels_of(s, t), t.restarts) for s, t in tasks],
    )
    yield gauge(
        f"{KAFKA}connector_task_status",
        "1 for the state that a task is in.",
        [({**labels_of(s, t), "status": _state(t.state)}, 1) for s, t in tasks],
    )


def _workers(cluster: ClusterStatus, statuses: Sequence[ConnectorStatus]) -> Iterator[Metric]:
    names = [({"worker": w.name or w.id}, w) for w in cluster.workers]
    yield gauge(
        "penstock_worker_connected",
        "Whether a worker has a session with the leader.",
        [(labels, int(worker.connected)) for labels, worker in names],
    )
    yield gauge(
        "penstock_worker_draining",
        "Whether a worker is being emptied.",
        [(labels, int(worker.draining)) for labels, worker in names],
    )
    yield gauge(
        "penstock_worker_tasks",
        "Tasks that a worker has.",
        [(labels, worker.tasks) for labels, worker in names],
    )
    yield gauge("penstock_tasks_unassigned", "Tasks of nobody.", [({}, cluster.unassigned)])
    yield gauge("penstock_tasks_moving", "Tasks on their way.", [({}, cluster.moving)])
    counts = len(statuses), sum(len(status.tasks) for status in statuses)
    yield gauge(f"{KAFKA}worker_connector_count", "Connectors.", [({}, counts[0])])
    yield gauge(f"{KAFKA}worker_task_count", "Tasks.", [({}, counts[1])])
    yield gauge(f"{KAFKA}worker_rebalance_epoch", "Revision.", [({}, cluster.revision)])
    yield gauge(
        f"{KAFKA}worker_rebalance_leader_name", "1.", [({"leader_name": cluster.leader}, 1)]
    )
    yield gauge(
        f"{KAFKA}worker_rebalance_rebalancing",
        "Whether tasks are on their way.",
        [({}, int(cluster.moving > 0))],
    )
    done, help_ = cluster.rebalances, "Times in which tasks left their workers."
    yield counter(f"{KAFKA}worker_rebalance_completed_rebalances", help_, [({}, done.completed)])
    for word, seconds in (("avg", done.mean), ("max", done.most)):
        name = f"{KAFKA}worker_rebalance_rebalance_{word}_time_ms"
        yield gauge(name, "Milliseconds of one.", [({}, seconds * 1000)])


def _counted(status: ConnectorStatus) -> Counter[str]:
    return Counter(_state(task.state) for task in status.tasks)


def _state(state: RunState) -> str:
    """Return what Kafka Connect calls a state: tasks never end there."""
    known = {RunState.COMPLETED: "running", RunState.UNSPECIFIED: "unassigned"}
    return known.get(state, state.name.lower())


def measured_processes(answers: Answers) -> Iterator[Metric]:
    """Yield all that is measured of processes."""
    yield gauge("penstock_processes", "Processes of a service.", _by_service(answers.there))
    silent = {service: answers.silent.get(service, 0) for service in answers.there}
    yield gauge(
        "penstock_processes_silent",
        "Processes of a service that did not tell their numbers in time.",
        _by_service(silent),
    )
    yield gauge(
        "penstock_processes_left_out",
        "Processes that are not asked for their numbers.",
        [({}, answers.left_out)],
    )
    for name, family in FAMILIES.items():
        samples = list(_samples(answers, name, family))
        yield (counter if family.grows else gauge)(family.name, family.help, samples)


def _by_service(counts: Mapping[str, int]) -> list[tuple[Mapping[str, str], float]]:
    return [({"service": service}, count) for service, count in sorted(counts.items())]


def _samples(
    answers: Answers, name: str, family: Family
) -> Iterator[tuple[Mapping[str, str], float]]:
    named = Counter((one.service, one.name) for one in answers.told)
    for one in answers.told:
        # a name is kept, so that a series goes on; where it is not unique, it has to be the id
        process = one.name if named[one.service, one.name] == 1 else one.id
        for number in one.numbers:
            if number.name == name:
                # a process of another version may have other labels: all samples need the same
                labels = {label: number.labels.get(label, "") for label in family.labels}
                yield {"service": one.service, "process": process, **labels}, number.value
