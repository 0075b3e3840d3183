"""`prometheus-source`: the task."""

from __future__ import annotations

from penstock_metrics.prometheus_source.config import PrometheusSourceConfig
from penstock_metrics.prometheus_source.target import PrometheusTarget
from penstock_metrics.scrape import ScrapeSource


class PrometheusSource(ScrapeSource[PrometheusSourceConfig]):
    """Metrics of targets as rows, by scraping.

    What a target answered once cannot be had again: after a crash, scrapes that were not yet
    written are missing.
    """

    name = "prometheus-source"
    title = "Metrics of targets as rows, by scraping"
    missed_code = "prometheus.scrapes_missed"

    @classmethod
    def open_target(cls, url: str, config: PrometheusSourceConfig) -> PrometheusTarget:
        """Return what scrapes a target."""
        return PrometheusTarget(url, config)
