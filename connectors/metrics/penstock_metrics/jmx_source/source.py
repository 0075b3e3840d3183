"""`jmx-source`: the task."""

from __future__ import annotations

from penstock_metrics.jmx_source.config import JmxSourceConfig
from penstock_metrics.jmx_source.target import JmxTarget
from penstock_metrics.scrape import ScrapeSource


class JmxSource(ScrapeSource[JmxSourceConfig]):
    """Attributes of a JVM's MBeans as rows, by Jolokia.

    What an agent answered once cannot be had again: after a crash, scrapes that were not yet
    written are missing.
    """

    name = "jmx-source"
    title = "Attributes of a JVM's MBeans as rows, by Jolokia"
    missed_code = "jmx.scrapes_missed"

    @classmethod
    def open_target(cls, url: str, config: JmxSourceConfig) -> JmxTarget:
        """Return what scrapes an agent."""
        return JmxTarget(url, config)
