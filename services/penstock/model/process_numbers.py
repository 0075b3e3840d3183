"""What a process counts and measures of itself: its engine, its plugins' processes, its store, its
lease, what it does as the leader. A table of all of them, with their names at `/metrics`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

_NONE: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Number:
    """A number by its name in `FAMILIES`. `labels` are those that it has beside its process."""

    name: str
    value: float
    labels: Mapping[str, str] = field(default_factory=lambda: _NONE)


@dataclass(frozen=True, slots=True)
class ProcessNumbers:
    """The numbers of a process. It keeps its `name`, which others may have, too; not the `id`."""

    service: str
    name: str
    id: str
    numbers: tuple[Number, ...] = ()


@dataclass(frozen=True, slots=True)
class Family:
    """How Prometheus is told a number: its name, without the `_total` of one that `grows`; what it
    is; the labels that it has beside its process.
    """

    name: str
    grows: bool
    help: str
    labels: tuple[str, ...] = ()


ReadNumbers = Callable[[], Iterable[Number]]
"""Tells numbers as they are now."""

OF_PLUGIN: Final = ("plugin", "connector_class")

FAMILIES: Final[Mapping[str, Family]] = {
    "engine.jobs": Family("penstock_engine_jobs", True, "Jobs that Spark has done."),
    "engine.failed": Family("penstock_engine_jobs_failed", True, "Jobs of Spark that failed."),
    "engine.job_seconds": Family(
        "penstock_engine_job_seconds", True, "Seconds of all jobs that Spark has done."
    ),
    "engine.plans": Family("penstock_engine_plans", True, "Plans that Spark has analysed."),
    "engine.running": Family("penstock_engine_jobs_running", False, "Jobs that Spark runs."),
    "engine.waiting": Family(
        "penstock_engine_jobs_waiting", False, "Micro-batches that wait for a place at Spark."
    ),
    "host.starts": Family(
        "penstock_host_plugin_starts",
        True,
        "Times that a process of a plugin was started.",
        OF_PLUGIN,
    ),
    "host.failures": Family(
        "penstock_host_plugin_failures_in_a_row",
        False,
        "Failures of a plugin's process since it last went well.",
        OF_PLUGIN,
    ),
    "store.writes": Family("penstock_store_writes", True, "Writes that were made durable."),
    "store.groups": Family(
        "penstock_store_transactions", True, "Transactions in which writes were made durable."
    ),
    "member.registrations": Family(
        "penstock_member_registrations", True, "Times that the process was registered in etcd."
    ),
    "member.pings": Family(
        "penstock_lease_pings", True, "Pings of the lease that etcd has answered."
    ),
    "member.left": Family(
        "penstock_lease_left_seconds",
        False,
        "Seconds until the lease is given up, unless a ping is answered.",
    ),
    "leader.turns": Family("penstock_leader_turns", True, "Turns of the leading scheduler."),
    "leader.failed": Family(
        "penstock_leader_turns_failed", True, "Turns of the leading scheduler that failed."
    ),
    "leader.sessions": Family(
        "penstock_leader_sessions", False, "Workers that have a session with the leader."
    ),
}
"""All numbers, by the part of a process that they are of, and what they are called there."""


def numbers_of(
    part: str, statistics: Mapping[str, float], labels: Mapping[str, str] = _NONE
) -> Iterator[Number]:
    """Yield the statistics of a part of a process as numbers."""
    for name, value in statistics.items():
        yield Number(f"{part}.{name}", value, labels)
