"""`syslog-source`: the task."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from penstock_connector import Batch, ConnectorError, Partition, RawRow, Source
from penstock_metrics.listener import (
    Listener,
    LossReport,
    Received,
    listen_error,
    listening_socket,
    receive_error,
)
from penstock_metrics.syslog_source.config import SyslogSourceConfig
from penstock_metrics.syslog_source.framing import SyslogFraming
from penstock_metrics.syslog_source.messages import parse_messages, parse_raw_row

_log = logging.getLogger(__name__)


class SyslogSource(Source[SyslogSourceConfig]):
    """Messages of syslog as rows.

    At most once from the socket: no sender is asked again, so what was received and not yet written
    is missing after a crash.
    """

    name = "syslog-source"
    title = "Messages of syslog as rows, by UDP, TCP and TLS"
    aliases = ("SyslogSourceConnector", "io.confluent.connect.syslog.SyslogSourceConnector")
    replayable = False

    @classmethod
    def check(cls, config: SyslogSourceConfig) -> None:
        """Look at the certificates, and listen for a moment."""
        config.tls_context()
        try:
            listening_socket(config.place).close()
        except OSError as error:
            raise listen_error("syslog.listen", config.place, error) from None

    @classmethod
    def parse_rows(
        cls, config: SyslogSourceConfig, rows: Sequence[RawRow]
    ) -> Iterator[Batch | ConnectorError]:
        """Read single messages again."""
        rules, now = config.rules(), datetime.now(UTC)
        for row in rows:
            found = parse_raw_row(row, rules, now)
            if isinstance(found, ConnectorError):
                yield found
            else:
                yield Batch(found, dataset=config.dataset)

    def connect(self, partitions: Sequence[Partition]) -> None:
        """Listen."""
        config = self.config
        self._ready = threading.Event()
        self._rules = config.rules()
        self._losses = LossReport(self.metrics, "syslog.dropped", _ADVICE)
        self._unsecured = 0
        try:
            self._listener = Listener(
                config.place,
                lambda: SyslogFraming(config.syslog_framing, config.syslog_message_max_bytes),
                self._ready.set,
                max_bytes=config.queue_max_bytes,
                max_connections=config.max_connections,
                tls=config.tls_context(),
            )
        except OSError as error:
            raise listen_error("syslog.listen", config.place, error) from None
        _log.info("listening at %s", config.place)

    def read_batch(self) -> Batch | None:
        """Return what came."""
        self._ready.clear()
        pieces = self._received()
        self._report_losses()
        if not pieces:
            return None
        now = datetime.now(UTC)
        rows, bad = parse_messages(pieces, self._rules, now)
        self.metrics.add("messages_received_total", rows.num_rows)
        if not rows.num_rows and not bad:
            return None
        return Batch(
            rows,
            offset={"received_ms": int(now.timestamp() * 1000)},
            dataset=self.config.dataset,
            bad_rows=bad,
        )

    def wait(self, timeout: float) -> None:
        """Block until something comes."""
        self._ready.wait(timeout)

    def wake(self) -> None:
        """Make a running `wait` return."""
        if hasattr(self, "_ready"):
            self._ready.set()

    def close(self) -> None:
        """Listen no more."""
        if hasattr(self, "_listener"):
            self._listener.close()

    def _received(self) -> list[Received]:
        try:
            return self._listener.take()
        except OSError as error:
            raise receive_error("syslog.failed", self.config.place, error) from None

    def _report_losses(self) -> None:
        listener = self._listener
        self._losses.report(
            {"datagrams_dropped": listener.dropped, "connections_refused": listener.refused}
        )
        unsecured = listener.unsecured
        if unsecured > self._unsecured:
            self.metrics.add("connections_unsecured_total", unsecured - self._unsecured)
            _log.warning(
                "[syslog.unsecured] %d more connections did not agree on TLS, and were closed; the "
                "last: %s", unsecured - self._unsecured, listener.unsecured_why,
            )  # fmt: skip
            self._unsecured = unsecured


_ADVICE = {
    "datagrams_dropped": "rows were not taken in time; raise `queue.max.bytes`, or use TCP",
    "connections_refused": "raise `max.connections`",
}
