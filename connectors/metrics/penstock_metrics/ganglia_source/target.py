"""One scrape of gmond: a connection, and what comes over it as rows."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from penstock_connector import BadRow, ConnectorError, DataError, RetriableError
from penstock_metrics.ganglia_source.config import GangliaSourceConfig, address_of_daemon
from penstock_metrics.ganglia_source.report import NotGanglia, Report, ReportRules, parse_report
from penstock_metrics.scrape import Target

_BLOCK: Final = 1 << 16
_PACKED: Final = b"\x1f\x8b"


class GangliaTarget(Target):
    """Scrapes one daemon. It answers whoever connects, and closes the connection."""

    def __init__(self, url: str, config: GangliaSourceConfig) -> None:
        super().__init__(url, {**config.fixed_labels(), "instance": url})
        self._config = config
        self._rules = ReportRules(
            config.stale_after, config.honor_timestamps, config.prometheus_names
        )
        self._policy = config.address_policy()
        self._socket: socket.socket | None = None
        self._stale = 0

    def read(self, at_ms: int) -> tuple[pa.RecordBatch, list[BadRow]]:
        """Ask it once."""
        found = self._asked()
        rows = found.rows(self.own, at_ms, honor_timestamps=self._config.honor_timestamps)
        self._stale = found.stale
        return rows, found.bad

    def details(self) -> Mapping[str, float]:
        """Return how many metrics were stale."""
        return {"ganglia_metrics_stale": float(self._stale)}

    def require_samples(self) -> None:
        """Raise unless it answers as gmond does."""
        self._asked()

    def cut(self) -> None:
        """End a running scrape now."""
        one = self._socket
        if one is not None:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let go of the connection: there is none between two scrapes."""

    def _asked(self) -> Report:
        body = self._received()
        try:
            return parse_report(body, self._rules)
        except NotGanglia as error:
            if error.refused:
                raise DataError(
                    "ganglia.unsafe_xml",
                    f"{self.url}: its answer is refused: {error}",
                    fix="Look at what answers there: neither gmond nor gmetad writes this.",
                ) from None
            why = "it is packed (`gzip_output`)" if body.startswith(_PACKED) else str(error)
            raise DataError(
                "ganglia.not_gmond",
                f"{self.url}: its answer is not that of gmond, or not whole: {why}",
                fix="Correct the port in `targets`: that of gmond's `tcp_accept_channel`, which is "
                "8649 by default.",
            ) from None

    def _received(self) -> bytes:
        host, port = address_of_daemon(self.url)
        self._config.reach.require_host(host, "targets")
        until = time.monotonic() + self._config.request_timeout
        try:
            with self._policy.connect(host, port, self._config.request_timeout) as one:
                self._socket = one
                return self._until_closed(one, until)
        except OSError as error:
            raise self._failure(error) from None
        finally:
            self._socket = None

    def _until_closed(self, one: socket.socket, until: float) -> bytes:
        parts, size = list[bytes](), 0
        while True:
            left = until - time.monotonic()
            if left <= 0:
                raise TimeoutError
            one.settimeout(left)
            block = one.recv(_BLOCK)
            if not block:
                return b"".join(parts)
            size += len(block)
            if size > self._config.response_max_bytes:
                raise DataError(
                    "metrics.too_large",
                    f"{self.url}: the answer has more than {self._config.response_max_bytes} bytes",
                    fix="Raise `response.max.bytes`, or ask a gmond of fewer hosts.",
                )
            parts.append(block)

    def _failure(self, error: OSError) -> ConnectorError:
        if isinstance(error, TimeoutError):
            return RetriableError(
                "metrics.timeout",
                f"{self.url}: no whole answer within {self._config.request_timeout:g} s",
                fix="Look at the daemon, or raise `request.timeout`.",
            )
        return RetriableError(
            "metrics.unreachable",
            f"{self.url}: {error.strerror or error}",
            fix="Start the daemon, let it answer this worker (`acl`), or correct `targets`.",
        )
