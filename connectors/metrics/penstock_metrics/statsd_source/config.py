"""The keys of `statsd-source`."""

from __future__ import annotations

from dataclasses import dataclass

from penstock_connector import key
from penstock_connector.reach import Reaching
from penstock_metrics.listener import LEAST_QUEUE, MAX_CONNECTIONS, Place
from penstock_metrics.remote_write import labels_of
from penstock_metrics.web import invalid


@dataclass(frozen=True)
class StatsdSourceConfig(Reaching):
    """Where it listens, and what becomes of what it receives."""

    listen_host: str = key("127.0.0.1", doc="Address to listen at.", group="Listening")
    listen_port: int = key(8125, doc="Port to listen at.", group="Listening")
    protocol: str = key(
        "udp", doc="How metrics are received.", choices=("udp", "tcp"), group="Listening"
    )
    max_connections: int = key(
        256, doc="Most connections at once, of `tcp`; more are closed.", group="Listening"
    )
    mode: str = key(
        "aggregate",
        doc="What a row is: what a metric came to in a flush interval, or each metric as it came "
        "(`raw`).",
        choices=("aggregate", "raw"),
        group="Rows",
    )
    flush_interval: float = key(10.0, doc="Time that is aggregated.", type="duration", group="Rows")
    quantiles: tuple[str, ...] = key(
        ("0.5", "0.95", "0.99"), doc="Quantiles of timers and histograms.", group="Rows"
    )
    prometheus_names: bool = key(
        True,
        doc="In names of metrics and tags, `_` stands for what Prometheus does not take.",
        group="Rows",
    )
    labels: tuple[str, ...] = key((), doc="Labels of all rows, as `name=value`.", group="Rows")
    dataset: str = key("metrics", doc="Dataset of the rows.", group="Rows")
    max_line_bytes: int = key(8192, doc="Most bytes of a metric.", type="size", group="Limits")
    queue_max_bytes: int = key(
        16 << 20,
        doc="Most bytes that are received and not yet rows. Beyond them UDP is dropped and "
        "counted, TCP waits.",
        type="size",
        group="Limits",
    )
    max_series: int = key(
        100_000,
        doc="Most series of an interval; metrics of further ones are dropped and counted.",
        group="Limits",
    )

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        labels_of(self.labels)
        if not 0 <= self.listen_port <= 65535:
            raise invalid("listen.port", "must be from 0 to 65535")
        if not 1 <= self.max_connections <= MAX_CONNECTIONS:
            raise invalid("max.connections", f"must be from 1 to {MAX_CONNECTIONS}")
        if self.queue_max_bytes < LEAST_QUEUE:
            raise invalid("queue.max.bytes", "must be 64KiB at least: a datagram has so many")
        for path, number in (
            ("flush.interval", self.flush_interval),
            ("max.line.bytes", self.max_line_bytes),
            ("max.series", self.max_series),
        ):
            if number <= 0:
                raise invalid(path, "must be more than 0")
        self.quantile_numbers()

    def require_reach(self) -> None:
        """Refuse an address that may not be named."""
        self.reach.require_host(self.listen_host, "listen.host")

    @property
    def place(self) -> Place:
        """Where it listens."""
        return Place(self.listen_host, self.listen_port, self.protocol == "udp")

    def fixed_labels(self) -> dict[str, str]:
        """Return the labels of all rows."""
        return labels_of(self.labels)

    def quantile_numbers(self) -> dict[str, float]:
        """Return the quantiles, as they are written and as numbers."""
        try:
            found = {text: float(text) for text in self.quantiles}
        except ValueError:
            found = {"": -1.0}
        if not all(0 <= number <= 1 for number in found.values()):
            raise invalid("quantiles", "must be numbers from 0 to 1")
        return found
