"""What is measured of a task, beside the rows and bytes of its status."""

from __future__ import annotations

from dataclasses import dataclass
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
