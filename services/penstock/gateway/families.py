"""Families of samples, as Prometheus' client makes text of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

Samples: TypeAlias = Sequence[tuple[Mapping[str, str], float]]
"""Labels and values; the labels of all samples of a family have the same names."""


def gauge(name: str, help_: str, samples: Samples) -> Metric:
    """Return a family of numbers that rise and fall."""
    return _family(GaugeMetricFamily, name, help_, samples)


def counter(name: str, help_: str, samples: Samples) -> Metric:
    """Return a family of numbers that only grow; their names get `_total`."""
    return _family(CounterMetricFamily, name, help_, samples)


def _family(
    kind: type[GaugeMetricFamily | CounterMetricFamily],
    name: str,
    help_: str,
    samples: Samples,
) -> Metric:
    names = list(samples[0][0]) if samples else []
    family = kind(name, help_, labels=names)
    for labels, value in samples:
        family.add_metric([labels[name] for name in names], value)
    return family
