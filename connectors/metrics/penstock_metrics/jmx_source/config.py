"""The keys of `jmx-source`."""

from __future__ import annotations

from dataclasses import dataclass

from penstock_connector import key
from penstock_metrics.jmx_source.mbeans import MBeanRead, parse_reads
from penstock_metrics.scrape import ScrapeKeys
from penstock_metrics.web import WebKeys, address_of, full_urls, invalid


@dataclass(frozen=True)
class JmxSourceConfig(ScrapeKeys, WebKeys):
    """Which agents are asked, and for which MBeans."""

    targets: tuple[str, ...] = key(
        doc="Jolokia agents: `host:port`, or addresses like `https://host:port/path`; one without "
        "a path has that of `jolokia.path`.",
        required=True,
        group="Targets",
    )
    mbeans: str = key(
        doc="Names of MBeans, separated by `;` or line ends: `domain:key=value,…`. All attributes "
        "are read, or those behind a vertical bar: `attribute,attribute/path`. `*` and `?` make a "
        "name a pattern.",
        required=True,
        group="Targets",
    )
    jolokia_path: str = key(
        "/jolokia/", doc="Path of targets that have none of their own.", group="Targets"
    )
    prometheus_names: bool = key(
        True,
        doc="In names of metrics and labels, `_` stands for what Prometheus does not take, and "
        "joins the parts of a name; else `.` joins them.",
        group="Labels",
    )

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        super().__post_init__()
        if not self.jolokia_path.startswith("/"):
            raise invalid("jolokia.path", "must begin with /")
        for url in self.urls():
            address_of(url, "targets")
        self.reads()

    def require_reach(self) -> None:
        """Refuse targets, and files for TLS, that may not be reached."""
        for url in self.urls():
            self.reach.require_host(address_of(url, "targets").hostname or "", "targets")
        self.require_tls_files()

    def urls(self) -> list[str]:
        """Return the addresses of the agents."""
        return full_urls(self.targets, self.jolokia_path)

    def reads(self) -> list[MBeanRead]:
        """Return what is read."""
        try:
            found = parse_reads(self.mbeans)
        except ValueError as error:
            raise invalid("mbeans", f"cannot be read: {error}") from None
        if not found:
            raise invalid("mbeans", "names no MBean")
        return found
