"""`prometheus-sink`: the task."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeAlias

import pyarrow as pa

from penstock_connector import (
    AuthError,
    ConfigError,
    ConnectorError,
    DataError,
    Refused,
    SchemaError,
    Sink,
)
from penstock_metrics.prometheus_sink.config import PrometheusSinkConfig
from penstock_metrics.remote_write import HEADERS, Block, empty_request
from penstock_metrics.samples import Samples
from penstock_metrics.web import (
    Answer,
    WebClient,
    status_error,
)

_log = logging.getLogger(__name__)

_ANSWER_BYTES: Final = 1 << 20
"""Most bytes of an answer: a text that says what is wrong."""

_CONFLICT: Final = frozenset({400, 409})
_THERE: Final = (
    "out of order sample",
    "duplicate sample for timestamp",
    "err-mimir-sample-out-of-order",
    "err-mimir-sample-duplicate-timestamp",
)
"""What receivers say of a sample that is not newer than the newest of its series: when rows come
again, they are there already."""

_PAST: Final = ("out of bounds", "err-mimir-sample-timestamp-too-old")


class PrometheusSink(Sink[PrometheusSinkConfig]):
    """Rows as samples of Prometheus, by remote write.

    A sample that comes again is there already, so that rows with times are written once in effect.
    """

    name = "prometheus-sink"
    title = "Rows as samples of Prometheus, by remote write"
    idempotent = True

    @classmethod
    def check(cls, config: PrometheusSinkConfig) -> None:
        """Send a request without samples: it changes nothing, and needs the login."""
        client = _client(config)
        try:
            _require_taken(client, empty_request())
        finally:
            client.close()

    def connect(self) -> None:
        """Get ready to send."""
        self._samples = Samples(self.config.rules(), _now_ms)
        self._clients = [_client(self.config) for _ in range(self.config.parallel)]
        self._pool = ThreadPoolExecutor(self.config.parallel, "remote-write")

    def apply_schema(
        self, dataset: str, schema: pa.Schema, key_columns: Sequence[str]
    ) -> Sequence[str] | None:
        """Refuse rows without the columns of a sample."""
        lacking = self.config.rules().missing(schema)
        if lacking:
            raise SchemaError(
                "prometheus.no_column",
                f"rows of {dataset!r} have no column {', '.join(sorted(lacking))}",
                fix="Set `name.column`, `metric.name`, `value.column`, `label.columns` or "
                "`line.column`.",
                dataset=dataset,
            )
        return None

    def check_batch(self, dataset: str, rows: pa.RecordBatch) -> Refused:
        """Refuse rows that are no samples."""
        return _in_order(self._samples.of(rows)[1])

    def write_batch(self, dataset: str, rows: pa.RecordBatch) -> Refused:
        """Send samples; those of one series in the order of their times."""
        block, bad = self._samples.of(rows)
        lanes = [_Lane(self.config, client, block, self.stopping.wait) for client in self._clients]
        ranges = list(block.lanes(len(lanes)))
        running = [
            self._pool.submit(lane.send, begin, end)
            for lane, (begin, end) in zip(lanes, ranges, strict=False)
        ]
        failures = [error for one in running if (error := one.exception()) is not None]
        if failures:
            raise failures[0]
        there = sum(lane.there for lane in lanes)
        if there:
            self.metrics.add("samples_already_there_total", there)
            _log.warning(
                "[prometheus.already_there] %d of %d samples of %r are not newer than the newest "
                "of their series, and were left out: they were written before, or the clock of "
                "their source goes back",
                there, len(block), dataset,
            )  # fmt: skip
        for lane in lanes:
            bad |= lane.refused
        self.metrics.add("samples_written_total", len(block) - there)
        return _in_order(bad)

    def close(self) -> None:
        """Let go of all connections."""
        if hasattr(self, "_pool"):
            for client in self._clients:
                client.cut()
            self._pool.shutdown()
            for client in self._clients:
                client.close()


def _in_order(bad: Mapping[int, ConnectorError]) -> Refused:
    return sorted(bad.items(), key=lambda one: one[0])


_Wait: TypeAlias = Callable[[float], object]


class _Lane:
    """Sends samples over one connection.

    Attributes:
        there: Samples that were there already.
        refused: Rows that the server refuses.
    """

    def __init__(
        self, config: PrometheusSinkConfig, client: WebClient, block: Block, wait: _Wait
    ) -> None:
        self._config, self._client, self._block, self._wait = config, client, block, wait
        self._retry = config.retry()
        self.there = 0
        self.refused: dict[int, DataError] = {}

    def send(self, begin: int, end: int) -> None:
        """Send samples, in order."""
        size = self._config.batch_samples
        for at in range(begin, end, size):
            self._send_all(at, min(at + size, end))

    def _send_all(self, begin: int, end: int) -> None:
        """Send one request; of one that is refused, the halves.

        The server may refuse all for the sake of one sample, so that only a request of a single
        sample says something about it. The earlier half goes first: when it came second, its
        samples would be out of order.
        """
        waiting = [(begin, end)]
        while waiting:
            begin, end = waiting.pop()
            error = self._send(begin, end)
            if error is None:
                continue
            if end - begin > 1:
                middle = (begin + end) // 2
                waiting += [(middle, end), (begin, middle)]
            elif error.code == _ALREADY:
                self.there += 1
            else:
                self.refused.setdefault(int(self._block.rows[begin]), error)

    def _send(self, begin: int, end: int) -> DataError | None:
        """Send one request; returns why it was refused."""
        body = self._block.request(begin, end)
        try:
            self._retry.call(lambda: _require_taken(self._client, body), self._wait)
        except DataError as error:
            return error
        return None


_ALREADY: Final = "prometheus.already_there"


def _require_taken(client: WebClient, body: bytes) -> None:
    """Send a request that must succeed.

    Raises:
        DataError: `prometheus.already_there`, `prometheus.out_of_bounds`, `metrics.refused`.
        ConnectorError: `metrics.…`
    """
    answer = client.ask("POST", HEADERS, body)
    if not 200 <= answer.status < 300:
        raise _refusal(answer, client.shown)


def _refusal(answer: Answer, shown: str) -> ConnectorError:
    text = answer.body[:300].decode("utf-8", "replace").strip()
    if answer.status in _CONFLICT and any(words in text for words in _THERE):
        return DataError("prometheus.already_there", f"{shown} answers: {text}")
    if answer.status in _CONFLICT and any(words in text for words in _PAST):
        return DataError(
            "prometheus.out_of_bounds",
            f"{shown} answers: {text}: the sample is too old for the server",
            fix="Correct the clock of its source, or let the server take old samples "
            "(`out_of_order_time_window` of Prometheus).",
        )
    error = status_error(answer, shown, "url")
    if isinstance(error, ConfigError | AuthError) and answer.status in {404, 405}:
        error.fix = "Correct `url`, or start Prometheus with `--web.enable-remote-write-receiver`."
    return error


def _client(config: PrometheusSinkConfig) -> WebClient:
    return WebClient(config.url, config, _ANSWER_BYTES, "url")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
