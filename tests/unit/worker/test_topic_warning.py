"""A `topic` that no row goes to is warned of once: rows that name a dataset go there."""

import logging
from types import SimpleNamespace

import pytest

from penstock.worker.runtime.task_factory import with_topic_warning


def warned(caplog, topic, *moved, reads_plugin=True):
    """Return the warnings about rows of these datasets, before and after the chain."""
    resolved = SimpleNamespace(
        sections=SimpleNamespace(framework={"topic": topic} if topic else {}),
        reads_plugin=reads_plugin,
        connector=SimpleNamespace(name="changes"),
    )
    reported = []
    report = with_topic_warning(resolved, lambda before, after: reported.append((before, after)))
    with caplog.at_level(logging.WARNING):
        for before, after in moved:
            report(before, after)
    assert reported == list(moved), "all are reported"
    return [record.getMessage() for record in caplog.records]


def test_rows_that_go_elsewhere_are_named_once(caplog):
    (said,) = warned(caplog, "orders", ("shop.a", "shop.a"), ("shop.b", "shop.b"))
    assert "`topic` is 'orders', but rows of 'shop.a' go to 'shop.a'" in said


@pytest.mark.parametrize(
    ("topic", "moved", "reads_plugin"),
    [
        ("", ("shop.a", "shop.a"), True),
        ("orders", ("orders", "orders"), True),
        ("orders", ("orders", "copies"), True),  # rows without a dataset, which a transform renames
        ("orders", ("shop.orders", "orders"), True),
        ("orders", ("shop.a", "shop.a"), False),
    ],
)
def test_a_topic_that_means_something_is_not_warned_of(caplog, topic, moved, reads_plugin):
    assert not warned(caplog, topic, moved, reads_plugin=reads_plugin)
