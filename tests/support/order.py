"""The order of test files: those that take long begin first, as one that began last would be waited
for alone.
"""

from collections import Counter

import pytest

USUAL = 300
"""Seconds that a test may take that says nothing about it; pytest's `timeout`."""

LONG = (
    "connectors/databases/tests/test_conformance.py",
    "connectors/builtin/tests/test_conformance.py",
    "connectors/go/tests/test_pipeline.py",
    "tests/unit/conformance/test_rude.py",
    "connectors/databases/tests/databend_sink/test_exactly_once.py",
    "connectors/databases/tests/databend_sink/test_types.py",
    "tests/contract/topic/test_topic.py",
    "tests/contract/gateway/test_rights_of_routes.py",
    "tests/contract/gateway/test_any_request.py",
)
"""Files that take more than a minute, the longest first, although no test of them may."""


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
