"""The keys of `prometheus-source`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock_connector import key
from penstock_metrics.remote_write import labels_of
from penstock_metrics.web import WebKeys, address_of, invalid

_MOST_PARALLEL: Final = 64


@dataclass(frozen=True)
class PrometheusSourceConfig(WebKeys):
    """Which targets are scraped, how often, and how their samples are labelled."""

    targets: tuple[str, ...] = key(
        doc="Targets: `host:port`, or addresses like `https://host:port/path`; one without a path "
        "has that of `metrics.path`.",
        required=True,
        group="Targets",
    )
    metrics_path: str = key(
        "/metrics", doc="Path of targets that have none of their own.", group="Targets"
    )
    scrape_interval: float = key(
        15.0, doc="Time between two scrapes of a target.", type="duration", group="Targets"
    )
    parallel: int = key(8, doc="Targets of a task that are scraped at once.", group="Targets")
    job: str = key("penstock", doc="Value of the label `job`.", group="Labels")
    labels: tuple[str, ...] = key((), doc="Labels of all samples, as `name=value`.", group="Labels")
    honor_labels: bool = key(
        False,
        doc="Where a target has a label of ours, its own counts; else it becomes `exported_name`.",
        group="Labels",
    )
    honor_timestamps: bool = key(
        True, doc="Times that a target gives count; else that of the scrape.", group="Labels"
    )
    dataset: str = key("metrics", doc="Dataset of the rows.", group="Labels")
    response_max_bytes: int = key(
        32 << 20, doc="Most bytes of an answer, unpacked.", type="size", group="Limits"
    )

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        super().__post_init__()
        self.fixed_labels()
        if not self.targets:
            raise invalid("targets", "names no target")
        if not self.metrics_path.startswith("/"):
            raise invalid("metrics.path", "must begin with /")
        urls = self.urls()
        if len(set(urls)) != len(urls):
            raise invalid("targets", "names a target twice")
        for url in urls:
            address_of(url, "targets")
        for path, number in (
            ("scrape.interval", self.scrape_interval),
            ("response.max.bytes", self.response_max_bytes),
        ):
            if number <= 0:
                raise invalid(path, "must be more than 0")
        if self.request_timeout > self.scrape_interval:
            raise invalid("request.timeout", "must not be longer than `scrape.interval`")
        if not 1 <= self.parallel <= _MOST_PARALLEL:
            raise invalid("parallel", f"must be from 1 to {_MOST_PARALLEL}")

    def require_reach(self) -> None:
        """Refuse targets, and files for TLS, that may not be reached."""
        for url in self.urls():
            self.reach.require_host(address_of(url, "targets").hostname or "", "targets")
        self.require_tls_files()

    def urls(self) -> list[str]:
        """Return the addresses of the targets."""
        full = (one if "://" in one else f"http://{one}" for one in self.targets)
        return [url if "/" in url.partition("://")[2] else url + self.metrics_path for url in full]

    def fixed_labels(self) -> dict[str, str]:
        """Return the labels of all samples but `instance`."""
        return {"job": self.job, **labels_of(self.labels)}
