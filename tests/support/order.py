"""The order of test files, and which of them run at the same time.

Long files begin first: one that began last would run alone at the end. Files that start clusters
fill both cores for minutes, so at most two of them run at the same time; the other lanes take short
files meanwhile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

USUAL = 300
"""Seconds that a test may take that says nothing about it; pytest's `timeout`."""

LONG = (
    "connectors/databases/tests/test_conformance.py",
    "connectors/rust/tests/test_conformance.py",
    "connectors/builtin/tests/test_conformance.py",
    "connectors/go/tests/test_pipeline.py",
    "tests/unit/conformance/test_rude.py",
    "connectors/databases/tests/jdbc_sink/test_exactly_once.py",
    "connectors/databases/tests/databend_sink/test_exactly_once.py",
    "connectors/databases/tests/databend_sink/test_types.py",
    "connectors/analytics/tests/clickhouse_sink/test_exactly_once.py",
    "connectors/databases/tests/jdbc_source/test_running.py",
    "tests/contract/topic/test_topic.py",
    "tests/contract/gateway/test_rights_of_routes.py",
    "tests/contract/gateway/test_any_request.py",
    "tests/unit/spark/test_archive.py",
    "tests/unit/spark/test_session.py",
)
"""Files that take about a minute or more, the longest first, although no test of them may."""

HEAVY = ("tests/chaos/", "tests/system/")
"""Folders of files that start clusters."""

MAX_HEAVY = 2
"""Heavy files at the same time. A third one gains nothing on two cores, and ends leases."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put long files first: those above, then those whose tests may take long.

    Among equals the order stays random. xdist keeps the order only with `--no-loadscope-reorder`.
    """
    most: dict[str, float] = {}
    counts = Counter(item.nodeid.partition("::")[0] for item in items)
    for item in items:
        file, mark = item.nodeid.partition("::")[0], item.get_closest_marker("timeout")
        most[file] = max(most.get(file, 0), mark.args[0] if mark else USUAL)

    def length(item: pytest.Item) -> tuple[int, float, int]:
        file = item.nodeid.partition("::")[0]
        return LONG.index(file) if file in LONG else len(LONG), -most[file], -counts[file]

    items.sort(key=length)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Lanes | None:
    """Use `Lanes` where xdist distributes files."""
    return Lanes(config, log) if config.getvalue("dist") == "loadfile" else None


class Lanes(LoadFileScheduling):  # type: ignore[misc] # xdist has no types
    """xdist's distribution of files to its processes, with few heavy files at the same time."""

    def _assign_work_unit(self, node: WorkerController) -> None:
        pending = {
            scope
            for units in self.assigned_work.values()
            for scope, tests in units.items()
            if not all(tests.values())
        }
        self.workqueue.move_to_end(next_file(self.workqueue, pending), last=False)
        super()._assign_work_unit(node)


def next_file(waiting: Mapping[str, object], pending: Iterable[str]) -> str:
    """Return which of the waiting files is next, while others are pending."""
    room = sum(map(is_heavy, pending)) < MAX_HEAVY
    return next((file for file in waiting if is_heavy(file) == room), next(iter(waiting)))


def is_heavy(file: str) -> bool:
    """Return whether tests of the file start clusters."""
    return file.startswith(HEAVY)
