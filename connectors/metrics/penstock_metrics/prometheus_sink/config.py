"""The keys of `prometheus-sink`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock_connector import CompatibilityKey, key
from penstock_connector.connection import Retry
from penstock_metrics.remote_write import LABEL_NAME, METRIC_NAME, labels_of
from penstock_metrics.samples import SampleRules
from penstock_metrics.web import WebKeys, address_of, invalid, missing

_MOST_PARALLEL: Final = 16

_SERVED: Final = {
    "prometheus.listener.url": "nothing is served: samples are sent to a server",
    "prometheus.scrape.url": "nothing is served: samples are sent to a server",
    "prometheus.listener.protocol": "nothing is served: samples are sent to a server",
    "buffer.limit": "samples are sent, not kept until they are scraped",
}
"""Keys of Confluent's sink of metrics, which serves an address that Prometheus scrapes."""


@dataclass(frozen=True)
class PrometheusSinkConfig(WebKeys):
    """Where samples go, and which columns make them."""

    url: str = key(
        doc="Address of remote write, for instance `http://localhost:9090/api/v1/write`.",
        required=True,
        group="Request",
    )
    format: str = key(
        "columns",
        doc="What a row is: `columns` of a sample, or a line of `text` as Prometheus' exporters "
        "write it.",
        choices=("columns", "text"),
        group="Samples",
    )
    line_column: str = key("line", doc="Column of the line, for `text`.", group="Samples")
    name_column: str = key("name", doc="Column of the metric's name.", group="Samples")
    metric_name: str = key("", doc="Name of the metric, where no column has it.", group="Samples")
    value_column: str = key(
        "value",
        doc="Column of the value: a number, a text of one, or a struct of numbers, whose names "
        "follow the metric's as `name_field` (`doubleValue` does not).",
        group="Samples",
    )
    labels_column: str = key(
        "labels",
        doc="Column of label pairs: a map, a flat struct or a JSON object.",
        group="Samples",
    )
    label_columns: tuple[str, ...] = key(
        (), doc="More columns, each of which is a label.", group="Samples"
    )
    labels: tuple[str, ...] = key(
        (), doc="Labels of all samples, as `name=value`.", group="Samples"
    )
    timestamp_column: str = key("timestamp", doc="Column of the time.", group="Time")
    timestamp_unit: str = key(
        "ms",
        doc="Unit of a time that is a whole number, since 1970.",
        choices=("s", "ms", "us", "ns"),
        group="Time",
    )
    timestamp_missing: str = key(
        "refuse",
        doc="What a row without a time is: refused, or of the moment that it is sent (`now`), so "
        "that it is another sample when it comes again. The time of a record (`__ts_us`) counts "
        "first.",
        choices=("refuse", "now"),
        group="Time",
    )
    timestamp_future_max: float = key(
        600.0,
        doc="How far a time may be ahead of the clock.",
        type="duration",
        group="Time",
    )
    batch_samples: int = key(5000, doc="Most samples of a request.", group="Batches")
    parallel: int = key(2, doc="Requests at once; a series stays in one of them.", group="Batches")
    retry_attempts: int = key(5, doc="Most attempts at a request.", group="Retries")
    retry_backoff: float = key(
        0.5, doc="Time before the second attempt; doubles.", type="duration", group="Retries"
    )
    retry_backoff_max: float = key(
        10.0, doc="Where doubling ends.", type="duration", group="Retries"
    )

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        super().__post_init__()
        address_of(self.url, "url")
        self.fixed_labels()
        if self.metric_name and not METRIC_NAME.fullmatch(self.metric_name):
            raise invalid("metric.name", "is no name of a metric: letters, digits, `_` and `:`")
        for name in self.label_columns:
            if not LABEL_NAME.fullmatch(name) or name.startswith("__"):
                raise invalid("label.columns", f"has {name!r}, which is no name of a label")
        for path, number in (
            ("batch.samples", self.batch_samples),
            ("retry.attempts", self.retry_attempts),
            ("retry.backoff", self.retry_backoff),
            ("retry.backoff.max", self.retry_backoff_max),
        ):
            if number <= 0:
                raise invalid(path, "must be more than 0")
        if not 1 <= self.parallel <= _MOST_PARALLEL:
            raise invalid("parallel", f"must be from 1 to {_MOST_PARALLEL}")
        if self.timestamp_future_max < 0:
            raise invalid("timestamp.future.max", "must not be less than 0")
        if self.format == "text" and not self.line_column:
            raise missing("line.column", "format=text")
        if self.format == "text" and (self.label_columns or self.metric_name):
            path = "label.columns" if self.label_columns else "metric.name"
            raise invalid(path, "is for format=columns: a line has its own name and labels")

    def require_reach(self) -> None:
        """Refuse a server, and files for TLS, that may not be reached."""
        self.reach.require_host(address_of(self.url, "url").hostname or "", "url")
        self.require_tls_files()

    @classmethod
    def compatibility_key(cls, name: str, value: str) -> CompatibilityKey | None:
        """Return what becomes of a key of Confluent's sink."""
        why = _SERVED.get(name)
        if why is None:
            return None
        fix = "Set `url` to the server's address of remote write, and remove this key."
        return CompatibilityKey(why, fix=fix, refused=True)

    def fixed_labels(self) -> dict[str, str]:
        """Return the labels of all samples."""
        return labels_of(self.labels)

    def rules(self) -> SampleRules:
        """Return which columns make a sample."""
        return SampleRules(
            text=self.line_column if self.format == "text" else "",
            name=self.name_column,
            constant=self.metric_name,
            value=self.value_column,
            labels=self.labels_column,
            label_columns=self.label_columns,
            fixed=self.fixed_labels(),
            time=self.timestamp_column,
            unit=self.timestamp_unit,
            untimed_is_now=self.timestamp_missing == "now",
            future_ms=round(self.timestamp_future_max * 1000),
        )

    def retry(self) -> Retry:
        """Return how often a request is made."""
        return Retry(self.retry_attempts, self.retry_backoff, self.retry_backoff_max, jitter=True)
