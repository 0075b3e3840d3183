"""What is measured of a task, beside the rows and bytes of its status, and of a process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

MOST_DATASETS: Final = 20
"""Datasets of a task that have numbers of their own: those that came first. A task that reads ten
thousand tables would else make ten thousand series (invariant 12)."""

MOST_OF_PLUGIN: Final = 32
"""Numbers that the plugin at one end of a task may have."""

LONGEST_DATASET: Final = 200
LONGEST_NAME: Final = 60
"""Characters of a dataset's name, and of the name of a plugin's number, as they are told."""

COUNTS: Final = "_total"
"""Ends the name of a plugin's number that only grows; all others may fall."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The least, the mean and the most of what was measured in the last 30 to 60 s."""

    least: float
    mean: float
    most: float


@dataclass(frozen=True, slots=True)
class DatasetRows:
    """Rows of a dataset, by the name that it has behind the chain. An empty name has the sum of
    those beyond `MOST_DATASETS`.
    """

    dataset: str
    rows_read: int = 0
    rows_written: int = 0


@dataclass(frozen=True, slots=True)
class PluginNumber:
    """A number that a plugin has of itself; `end`: source or sink, which of a task it is."""

    plugin: str
    end: str
    name: str
    value: float


@dataclass(frozen=True, slots=True)
class TaskWork:
    """How a task works. Shares are of the time since it was assigned, 0 to 1. `starts` are
    lives that began, `started` those whose ends were opened, `start_failures` those that ended by
    an error before. `rows_under_way` were announced by the read end and are not committed. Seconds
    of a commit are those until the source was told; of a micro-batch, those of its slowest slot
    from fetch to put. `last_error_ms` is 0 where there was none.
    """

    running: float = 0.0
    paused: float = 0.0
    starts: int = 0
    started: int = 0
    start_failures: int = 0
    commits_failed: int = 0
    retries: int = 0
    rows_skipped: int = 0
    errors_logged: int = 0
    last_error_ms: int = 0
    rows_under_way: int = 0
    partitions: int = 0
    commit_seconds: Spread | None = None
    batch_seconds: Spread | None = None
    batch_rows: Spread | None = None
    under_way: Spread | None = None


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
