"""`statsd-source`: the task."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence

from penstock_connector import Batch, Partition, Source
from penstock_metrics.listener import (
    Listener,
    LossReport,
    listen_error,
    listening_socket,
    receive_error,
)
from penstock_metrics.statsd_source.aggregation import Aggregation, raw_rows
from penstock_metrics.statsd_source.config import StatsdSourceConfig
from penstock_metrics.statsd_source.parsing import LineBlocks, Lines, parse_lines

_log = logging.getLogger(__name__)


class StatsdSource(Source[StatsdSourceConfig]):
    """Metrics that applications send, as rows.

    What is received once does not come again: after a crash, what was not yet written is missing.
    """

    name = "statsd-source"
    title = "Metrics that applications send by StatsD, as rows"
    replayable = False

    @classmethod
    def check(cls, config: StatsdSourceConfig) -> None:
        """Listen for a moment."""
        try:
            listening_socket(config.place).close()
        except OSError as error:
            raise listen_error("statsd.listen", config.place, error) from None

    def connect(self, partitions: Sequence[Partition]) -> None:
        """Listen."""
        config = self.config
        self._ready = threading.Event()
        self._fixed = config.fixed_labels()
        self._aggregation = Aggregation(
            config.quantile_numbers(),
            self._fixed,
            config.max_series,
            prometheus_names=config.prometheus_names,
        )
        self._flush_at = time.monotonic() + config.flush_interval
        self._losses = LossReport(self.metrics, "statsd.dropped", _ADVICE)
        try:
            self._listener = Listener(
                config.place,
                lambda: LineBlocks(config.max_line_bytes),
                self._ready.set,
                max_bytes=config.queue_max_bytes,
                max_connections=config.max_connections,
            )
        except OSError as error:
            raise listen_error("statsd.listen", config.place, error) from None
        _log.info("listening at %s:%d", config.listen_host, self._listener.port)

    def read_batch(self) -> Batch | None:
        """Return what came: each metric, or what an interval came to."""
        self._ready.clear()
        lines = self._received()
        self._losses.report(
            {
                "datagrams_dropped": self._listener.dropped,
                "connections_refused": self._listener.refused,
                "metrics_dropped": self._aggregation.dropped,
            }
        )
        now_ms = time.time_ns() // 1_000_000
        if self.config.mode == "raw":
            if lines is None:
                return None
            rows = raw_rows(
                lines, self._fixed, now_ms, prometheus_names=self.config.prometheus_names
            )
        else:
            if lines is not None:
                self._aggregation.fold(lines)
            if time.monotonic() < self._flush_at:
                bad = lines.bad if lines else []
                return Batch(dataset=self.config.dataset, bad_rows=bad) if bad else None
            rows = self._aggregation.flush(now_ms)
            self._flush_at = time.monotonic() + self.config.flush_interval
        bad = lines.bad if lines else []
        if not rows.num_rows and not bad:
            return None
        return Batch(
            rows, offset={"received_ms": now_ms}, dataset=self.config.dataset, bad_rows=bad
        )

    def wait(self, timeout: float) -> None:
        """Block until something comes or an interval ends."""
        if self.config.mode == "aggregate":
            timeout = min(timeout, self._flush_at - time.monotonic())
        self._ready.wait(max(timeout, 0))

    def wake(self) -> None:
        """Make a running `wait` return."""
        if hasattr(self, "_ready"):
            self._ready.set()

    def close(self) -> None:
        """Listen no more."""
        if hasattr(self, "_listener"):
            self._listener.close()

    def _received(self) -> Lines | None:
        config = self.config
        try:
            pieces = self._listener.take()
        except OSError as error:
            raise receive_error("statsd.failed", config.place, error) from None
        if not pieces:
            return None
        lines = parse_lines(
            b"\n".join(piece.data for piece in pieces),
            config.max_line_bytes,
            prometheus_names=config.prometheus_names,
            raw=config.mode == "raw",
        )
        self.metrics.add("metrics_received_total", lines.table.num_rows)
        return lines


_ADVICE = {
    "datagrams_dropped": "rows were not taken in time; raise `queue.max.bytes`",
    "connections_refused": "raise `max.connections`",
    "metrics_dropped": "an interval has too many series or members of sets; raise `max.series`",
}
