"""`ganglia-source`: the task."""

from __future__ import annotations

from penstock_metrics.ganglia_source.config import GangliaSourceConfig
from penstock_metrics.ganglia_source.target import GangliaTarget
from penstock_metrics.scrape import ScrapeSource


class GangliaSource(ScrapeSource[GangliaSourceConfig]):
    """Metrics of Ganglia's gmond as rows.

    What a daemon answered once cannot be had again: after a crash, scrapes that were not yet
    written are missing.
    """

    name = "ganglia-source"
    title = "Metrics of Ganglia's gmond as rows"
    missed_code = "ganglia.scrapes_missed"

    @classmethod
    def open_target(cls, url: str, config: GangliaSourceConfig) -> GangliaTarget:
        """Return what scrapes a daemon."""
        return GangliaTarget(url, config)
