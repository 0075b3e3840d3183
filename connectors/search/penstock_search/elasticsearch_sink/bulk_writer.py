"""Sends the actions of a transaction: several requests at a time, and again what was not taken.

Actions are divided by their document, so that those for one document stay in their order: one lane
sends a request when the one before it was answered.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
import zlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final
from urllib.parse import quote

from penstock_connector import ConnectorError, DataError, RetriableError, Staging
from penstock_connector.connection import Retry
from penstock_search.elasticsearch_sink.answers import (
    not_json,
    status_error,
    too_large,
)
from penstock_search.elasticsearch_sink.bulk_requests import (
    Action,
    BulkRequest,
    Outcomes,
    read_outcomes,
)
from penstock_search.elasticsearch_sink.client import NDJSON, SearchClient, error_of
from penstock_search.elasticsearch_sink.config import ElasticsearchSinkConfig
from penstock_search.elasticsearch_sink.json_library import load_json
from penstock_search.elasticsearch_sink.resources import Resources

_MAX_BACKOFF_S: Final = 10.0
"""Where the pauses between attempts stop doubling."""

_MAX_WAITING: Final = 2
"""Requests that wait for a lane: one is ready when the one before it is answered."""

_MAX_REFUSED: Final = 10_000
"""Refused rows of a transaction: so many rarely have separate causes, and as many end the task."""

_LOOK_S: Final = 0.1
"""Seconds after which a full lane is looked at again, to see whether another one has failed."""

_ANSWER: Final = (
    "errors,error,items.*.status,items.*.error.type,items.*.error.reason,items.*.error.caused_by"
)
"""What is wanted of an answer: without it, it is as large as the request."""

FailedRow = tuple[Staging, int, DataError]
"""A row that the server refused: its staging, its number there, and why."""

_log = logging.getLogger(__name__)


class BulkWriter:
    """Writes the rows of transactions, one transaction after the other."""

    def __init__(
        self,
        config: ElasticsearchSinkConfig,
        client: SearchClient,
        resources: Resources,
        stopping: threading.Event,
    ) -> None:
        self._config, self._client, self._resources = config, client, resources
        self._stopping = stopping
        self._lanes = config.max_in_flight_requests
        self._pool = ThreadPoolExecutor(self._lanes, thread_name_prefix="bulk")
        pipeline = quote(config.pipeline, safe="")
        self._path = f"/_bulk?filter_path={_ANSWER}" + (f"&pipeline={pipeline}" if pipeline else "")

    def write(self, actions: Iterable[Action]) -> Outcomes:
        """Write all actions, and return what became of them; `again` is empty.

        Raises:
            ConnectorError: something failed that is not about single rows.
            RetriableError: `elasticsearch.flush_timeout`.
        """
        run = _Run(self, time.monotonic() + self._config.max_write_s)
        futures = [self._pool.submit(run.drain, lane) for lane in range(self._lanes)]
        try:
            run.fill(actions)
        except BaseException:
            run.failed.set()
            raise
        finally:
            run.end()
            errors = [error for one in futures if (error := one.exception()) is not None]
        # a lane that was ended by the failure of another one says nothing
        told = [error for error in errors if not isinstance(error, _EndedError)]
        if told:
            raise told[0]
        return run.outcomes

    def lane_of(self, action: Action, turn: int) -> int:
        """Return the lane of an action."""
        return (
            turn % self._lanes
            if action.id is None
            else zlib.crc32(action.id.encode()) % self._lanes
        )

    @property
    def lanes(self) -> int:
        """How many requests are sent at once."""
        return self._lanes

    def takes(self, request: BulkRequest, action: Action) -> bool:
        """Return whether an action has room in a request."""
        return request.takes(action, self._config.batch_size, self._config.bulk_size_bytes)

    def send(
        self, actions: list[Action], until: float, failed: threading.Event
    ) -> tuple[Outcomes, list[Action]]:
        """Send a request once. Returns what became of its actions, and those that must be sent in
        smaller requests.

        Raises:
            ConnectorError: nothing of it was taken, for all that is known.
        """
        if failed.is_set():
            raise _EndedError
        if time.monotonic() > until:
            raise _too_late(self._config.max_write_s)
        body = b"".join(action.text for action in actions)
        answer = self._client.send("POST", self._path, body, content_type=NDJSON, until=until)
        if answer.status == 413:
            if len(actions) > 1:
                return Outcomes(), actions
            return Outcomes(refused=[(actions[0], too_large(answer.where, len(body)))]), []
        try:
            parsed = load_json(answer.body)
        except ValueError:
            if 200 <= answer.status < 300:
                raise not_json(answer) from None
            parsed = None
        if answer.status != 200:
            raise status_error(answer, error_of(parsed))
        return read_outcomes(parsed, actions, answer.where), []

    def renew(self, error: ConnectorError) -> None:
        """Make an index again that was deleted while it was written to."""
        if error.code == "elasticsearch.no_index":
            self._resources.renew()

    def retry(self, until: float) -> Retry:
        """Return how often a request is sent."""
        config = self._config
        within = max(until - time.monotonic(), 0.0)
        return Retry(
            config.max_retries + 1, config.retry_backoff_ms, _MAX_BACKOFF_S, within, jitter=True
        )

    def wait(self, seconds: float) -> bool:
        """Wait, and return whether the task is ending."""
        return self._stopping.wait(seconds)

    def close(self) -> None:
        """End the lanes."""
        self._pool.shutdown(wait=True)


class _Run:
    """One transaction: the lanes, and what became of its actions so far."""

    def __init__(self, writer: BulkWriter, until: float) -> None:
        self._writer, self._until = writer, until
        self._lock = threading.Lock()
        self.failed = threading.Event()
        self.outcomes = Outcomes()
        self._queues = [queue.Queue[BulkRequest | None](_MAX_WAITING) for _ in range(writer.lanes)]

    def fill(self, actions: Iterable[Action]) -> None:
        """Divide actions into requests, as the lanes take them."""
        open_requests = [BulkRequest() for _ in self._queues]
        for turn, action in enumerate(actions):
            lane = self._writer.lane_of(action, turn)
            if not self._writer.takes(open_requests[lane], action):
                self._put(lane, open_requests[lane])
                open_requests[lane] = BulkRequest()
            open_requests[lane].add(action)
        for lane, request in enumerate(open_requests):
            if request.actions:
                self._put(lane, request)

    def _put(self, lane: int, request: BulkRequest) -> None:
        while not self.failed.is_set():
            try:
                self._queues[lane].put(request, timeout=_LOOK_S)
            except queue.Full:
                continue
            return

    def end(self) -> None:
        """Tell the lanes that nothing more comes."""
        for one in self._queues:
            while True:
                try:
                    one.put(None, timeout=_LOOK_S)
                except queue.Full:
                    if self.failed.is_set():
                        one.get_nowait()
                    continue
                break

    def drain(self, lane: int) -> None:
        """Send the requests of a lane, one after the other."""
        try:
            while (request := self._queues[lane].get()) is not None:
                if self.failed.is_set():
                    raise _EndedError
                self._write(request.actions)
        except BaseException:
            self.failed.set()
            raise

    def _write(self, actions: list[Action]) -> None:
        left, split = actions, list[Action]()

        def attempt() -> None:
            nonlocal left, split
            found, split = self._writer.send(left, self._until, self.failed)
            self._add(found)
            left = found.again
            if found.error is not None:
                self._writer.renew(found.error)
                raise found.error

        self._writer.retry(self._until).call(attempt, self._writer.wait)
        if split:
            middle = len(split) // 2
            self._write(split[:middle])
            self._write(split[middle:])

    def _add(self, found: Outcomes) -> None:
        with self._lock:
            self.outcomes.written += found.written
            self.outcomes.stale += found.stale
            self.outcomes.refused += found.refused
            if len(self.outcomes.refused) > _MAX_REFUSED:
                _log.warning("more than %d documents were refused", _MAX_REFUSED)
                raise self.outcomes.refused[0][1]


class _EndedError(Exception):
    """Another lane failed."""


def _too_late(seconds: float) -> RetriableError:
    return RetriableError(
        "elasticsearch.flush_timeout",
        f"the rows of a transaction were not written within {seconds:g} s",
        fix="Raise `flush.timeout.ms` (100 s at most), lower `batch.max.bytes` of the connector, "
        "or make the servers faster. Rows that were written do not harm when they come again.",
    )
