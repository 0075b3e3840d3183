"""The keys of `prometheus-source`."""

from __future__ import annotations

from dataclasses import dataclass

from penstock_connector import key
from penstock_metrics.scrape import ScrapeKeys
from penstock_metrics.web import WebKeys, address_of, full_urls, invalid


@dataclass(frozen=True)
class PrometheusSourceConfig(ScrapeKeys, WebKeys):
    """Which targets are scraped, and how their samples are labelled."""

    targets: tuple[str, ...] = key(
        doc="Targets: `host:port`, or addresses like `https://host:port/path`; one without a path "
        "has that of `metrics.path`.",
        required=True,
        group="Targets",
    )
    metrics_path: str = key(
        "/metrics", doc="Path of targets that have none of their own.", group="Targets"
    )
    honor_labels: bool = key(
        False,
        doc="Where a target has a label of ours, its own counts; else it becomes `exported_name`.",
        group="Labels",
    )
    honor_timestamps: bool = key(
        True, doc="Times that a target gives count; else that of the scrape.", group="Labels"
    )

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        super().__post_init__()
        if not self.metrics_path.startswith("/"):
            raise invalid("metrics.path", "must begin with /")
        for url in self.urls():
            address_of(url, "targets")

    def require_reach(self) -> None:
        """Refuse targets, and files for TLS, that may not be reached."""
        for url in self.urls():
            self.reach.require_host(address_of(url, "targets").hostname or "", "targets")
        self.require_tls_files()

    def urls(self) -> list[str]:
        """Return the addresses of the targets."""
        return full_urls(self.targets, self.metrics_path)
