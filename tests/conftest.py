"""Settings of every test here: no fault is armed from outside, and long files begin first."""

import os
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings

# A busy machine is slow, which is no finding: pytest's own time limit ends what hangs.
settings.register_profile(
    "penstock", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("penstock")

USUAL = 300
"""Seconds that a test may take that says nothing about it; pytest's `timeout`."""


def pytest_configure() -> None:
    """Take an armed fault of the caller's shell away, before any product module is imported."""
    os.environ.pop("PENSTOCK_FAULTS", None)
    # JVMs of tests live for seconds: without the second compiler they cost half as much
    os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files whose tests may take long first: one that began last would be waited for alone.
    Among equals the order stays random. xdist keeps it only with `--no-loadscope-reorder`.
    """
    most: dict[str, float] = {}
    counts = Counter(item.nodeid.partition("::")[0] for item in items)
    for item in items:
        file, mark = item.nodeid.partition("::")[0], item.get_closest_marker("timeout")
        most[file] = max(most.get(file, 0), mark.args[0] if mark else USUAL)

    def length(item: pytest.Item) -> tuple[float, int]:
        file = item.nodeid.partition("::")[0]
        return -most[file], -counts[file]

    items.sort(key=length)
