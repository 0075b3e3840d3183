"""The keys of `ganglia-source`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from penstock_connector import key
from penstock_metrics.scrape import ScrapeKeys
from penstock_metrics.web import invalid

_PORT: Final = 8649


@dataclass(frozen=True)
class GangliaSourceConfig(ScrapeKeys):
    """Which daemons are asked, and what counts as stale."""

    targets: tuple[str, ...] = key(
        doc="Daemons: `host` or `host:port`, of gmond (8649) or gmetad (8651).",
        required=True,
        group="Targets",
    )
    stale_after: float = key(
        4.0,
        doc="A metric, or a host, that was not reported for so many times its `TMAX` is stale and "
        "gives no sample; 0: none is.",
        group="Rows",
    )
    honor_timestamps: bool = key(
        False,
        doc="A sample has the time of its report, in whole seconds; else that of the scrape.",
        group="Rows",
    )
    prometheus_names: bool = key(
        True, doc="In names of metrics, `_` stands for what Prometheus does not take.", group="Rows"
    )

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        super().__post_init__()
        if not 0 <= self.stale_after < float("inf"):
            raise invalid("stale.after", "must be 0 or more")

    def require_reach(self) -> None:
        """Refuse targets that may not be reached."""
        for target in self.targets:
            self.reach.require_host(address_of_daemon(target)[0], "targets")

    def urls(self) -> list[str]:
        """Return the addresses of the daemons, each with its port."""
        found = []
        for target in self.targets:
            host, port = address_of_daemon(target)
            found.append(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
        return found


def address_of_daemon(target: str) -> tuple[str, int]:
    """Return host and port of a target.

    Raises:
        ConfigError: `config.invalid_value`.
    """
    try:
        parts = urlsplit(f"//{target}")
        host, port = parts.hostname or "", parts.port or _PORT
    except ValueError:
        host, port = "", 0
    if not host or any(sign in target for sign in "/@?# "):
        raise invalid("targets", f"has {target[:100]!r}, which is not `host:port`")
    return host, port
