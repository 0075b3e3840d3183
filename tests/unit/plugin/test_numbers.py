"""Numbers that a plugin has of itself: the good ones are told, the bad ones are left out."""

import logging
import math

import pytest

from penstock.api.connector.v1.types_pb2 import Progress
from penstock.model.metrics import MAX_PLUGIN_METRICS, PluginMetric
from penstock.plugin.streams.source_events import PluginMetrics


def told(metrics, **fields):
    plugin_metrics = PluginMetrics("mine", "source")
    plugin_metrics.update(Progress(metrics=metrics, **fields))
    return {one.name: one.value for one in plugin_metrics.current()}


def test_names_of_opentelemetry_become_prometheus():
    assert told({"http.requests_total": 2, "queue": 7}) == {"http_requests_total": 2, "queue": 7}


@pytest.mark.parametrize(
    "name", ["", "Upper", "0th", "a b", "é", "x" * 61, 'a{b="c"}', "a\nb 1", "_a"]
)
def test_a_bad_name_is_left_out(name):
    assert told({name: 1, "good": 2}) == {"good": 2}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_left_out(value):
    assert told({"bad": value, "good": -2}) == {"good": -2}


def test_there_are_so_many_and_no_more_and_it_is_said_once(caplog):
    metrics = PluginMetrics("mine", "sink")
    flood = Progress(metrics={f"n{number}": number for number in range(1000)})
    with caplog.at_level(logging.WARNING):
        metrics.update(flood)
        metrics.update(flood)
    assert len(metrics.current()) == MAX_PLUGIN_METRICS
    assert [record.message.partition(" reports")[0] for record in caplog.records] == ["plugin mine"]


def test_the_newest_count_and_a_heartbeat_without_numbers_changes_nothing():
    metrics = PluginMetrics("mine", "sink")
    metrics.update(Progress(metrics={"a": 1, "b": 1}))
    metrics.update(Progress(metrics={"a": 2}))
    metrics.update(Progress(lag_bytes=3))
    assert metrics.current() == (PluginMetric("mine", "sink", "a", 2),)
