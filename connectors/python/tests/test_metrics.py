"""Numbers that a connector has of itself: what may be one is checked where it is counted."""

import math

import pytest

from penstock_connector._metrics import MOST, Metrics


def test_counters_add_up_and_gauges_are_the_newest():
    metrics = Metrics()
    metrics.add("requests_total")
    metrics.add("requests_total", 2)
    metrics.set("queue_size", 5)
    metrics.set("queue_size", 3)
    assert metrics.now() == {"requests_total": 3, "queue_size": 3}


@pytest.mark.parametrize(
    "name", ["", "Requests_total", "1_total", "a b_total", "x" * 60 + "_total"]
)
def test_a_bad_name_is_refused(name):
    with pytest.raises(ValueError, match=r"name|counter"):
        Metrics().add(name)


def test_what_is_neither_counter_nor_gauge_is_refused():
    metrics = Metrics()
    for wrong in (
        lambda: metrics.add("requests"),
        lambda: metrics.add("requests_total", -1),
        lambda: metrics.add("requests_total", math.nan),
        lambda: metrics.set("requests_total", 1),
        lambda: metrics.set("size", math.inf),
    ):
        with pytest.raises(ValueError, match=r"size|requests"):
            wrong()
    assert metrics.now() == {}


def test_there_are_so_many_and_no_more():
    metrics = Metrics()
    for number in range(MOST):
        metrics.set(f"n{number}", number)
    metrics.set("n0", 1)
    with pytest.raises(ValueError, match="most"):
        metrics.set("one_more", 1)
    assert len(metrics.now()) == MOST
