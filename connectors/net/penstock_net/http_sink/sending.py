"""Requests that are sent, and sent again; in several lanes at once."""

from __future__ import annotations

import logging
import threading
import time
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from penstock_connector import ConnectorError, DataError, RetriableError, Staging
from penstock_net.http_sink.bodies import Bodies, Outgoing, Part, Place
from penstock_net.http_sink.config import HttpSinkConfig
from penstock_net.http_sink.jsontext import json_text
from penstock_net.web.address import address_of
from penstock_net.web.client import Answer
from penstock_net.web.login import Caller

_ANY: Final = frozenset(range(100, 600))
"""All statuses: what they mean is decided here, by the keys."""

FailedRow = tuple[Staging, int, DataError]
"""A row that the server refused: its staging, its number there, and why."""

_REFUSALS: Final = frozenset({"http.refused", "http.not_found"})
"""Codes of answers that are about the rows. Others are about an answer to rows that were taken."""

_SEARCH_S: Final = 30.0
"""Seconds after which refused rows are reported before all others are sent. The host waits 120."""

_MOST_REFUSED: Final = 10_000
"""Refused rows of a transaction: so many rarely have separate causes, and as many end the task."""

_log = logging.getLogger(__name__)


class Sender:
    """Sends rows in their order, in as many lanes as are wanted. Rows that must stay in order are
    in one lane, and a lane sends a request when the one before it was answered.
    """

    def __init__(
        self, config: HttpSinkConfig, bodies: Bodies, name: str, stopping: threading.Event
    ) -> None:
        """`name` says whose requests they are: the task and its epoch."""
        self._config, self._bodies, self._name = config, bodies, name
        self._stopping = stopping
        self._until, self._unsent = 0.0, set[Place]()
        self._retries = config.retry_rules()
        self._callers = [Caller(config) for _ in range(config.parallel)]
        self._pool = ThreadPoolExecutor(config.parallel, thread_name_prefix="http")

    def send(self, txn_id: int, parts: Sequence[Part]) -> tuple[list[FailedRow], set[Place]]:
        """Send all rows of a transaction. Returns those that the server refused, where failed rows
        are tolerated, and those that there was no time for because of them; any other error ends
        all lanes.

        Raises:
            ConnectorError: `http.…`
        """
        failed, refused = threading.Event(), list[FailedRow]()
        self._until, self._unsent = time.monotonic() + _SEARCH_S, set()
        lanes = self._divided(parts)
        sending = [
            self._pool.submit(self._lane, number, txn_id, lane, failed, refused)
            for number, lane in enumerate(lanes)
            if lane
        ]
        errors = [error for future in sending if (error := future.exception()) is not None]
        if errors:
            # what a lane was told to stop for is not the reason
            raise next((e for e in errors if not isinstance(e, _EndedError)), errors[0])
        return refused, self._unsent

    def close(self) -> None:
        """Let go of all connections."""
        for caller in self._callers:
            caller.cut()
        self._pool.shutdown(wait=True, cancel_futures=True)
        for caller in self._callers:
            caller.close()

    def _divided(self, parts: Sequence[Part]) -> list[list[Part]]:
        count = len(self._callers)
        if count == 1:
            return [list(parts)]
        lanes: list[list[Part]] = [[] for _ in range(count)]
        for part in parts:
            wanted = part.rows.select(list(self._config.order_columns)).to_pylist()
            chosen = [zlib.crc32(json_text(row).encode()) % count for row in wanted]
            for number, lane in enumerate(lanes):
                rows = [row for row, at in enumerate(chosen) if at == number]
                if rows:
                    lane.append(part.take(rows))
        return lanes

    def _lane(
        self,
        lane: int,
        txn_id: int,
        parts: Sequence[Part],
        failed: threading.Event,
        refused: list[FailedRow],
    ) -> None:
        try:
            for number, outgoing in enumerate(self._bodies.of(parts)):
                if failed.is_set():
                    raise _EndedError
                if refused and time.monotonic() > self._until:
                    self._unsent.update(place for place in outgoing.places if place)
                    continue
                key = outgoing.key or f"{self._name}-{txn_id}-{lane}-{number}"
                refused += self._sent_or_refused(self._callers[lane], outgoing, key)
                if len(refused) > _MOST_REFUSED:
                    raise refused[0][2]
        except BaseException:
            failed.set()
            raise

    def _sent_or_refused(self, caller: Caller, outgoing: Outgoing, key: str) -> list[FailedRow]:
        """Send a request. Where the server refuses it and that is tolerated, its halves are sent,
        until the rows are found that it does not take.
        """
        place = outgoing.places[0]
        try:
            self._sent(caller, outgoing, key)
        except DataError as error:
            if place is None or error.code not in _REFUSALS:
                raise
            if len(outgoing.texts) == 1:
                return [(*place, error)]
            return [
                one
                for number, half in enumerate(outgoing.halves())
                for one in self._sent_or_refused(caller, half, f"{key}-{number}")
            ]
        return []

    def _sent(self, caller: Caller, outgoing: Outgoing, key: str) -> None:
        failures = 0
        while True:
            try:
                self._once(caller, outgoing, key)
            except ConnectorError as error:
                failures += 1
                pause = self._retries.pause(failures, error)
                if pause is None:
                    raise
                _log.warning("sending again in %.1f s: %s", pause, error)
                if self._stopping.wait(pause):
                    raise
                continue
            return

    def _once(self, caller: Caller, outgoing: Outgoing, key: str) -> None:
        config = self._config
        headers = {"Content-Type": config.type_of_content(), **outgoing.headers}
        if config.idempotency_key != "none":
            headers[config.idempotency_header] = key
        answer = caller.ask(
            outgoing.url,
            method=config.method,
            headers=headers,
            body=self._bodies.body(outgoing),
            fine=_ANY,
        )
        if not config.is_ok(answer.status):
            raise self._meaning(caller, answer, outgoing)

    def _meaning(self, caller: Caller, answer: Answer, outgoing: Outgoing) -> ConnectorError:
        """Return what a status means: whether it is sent again, the keys say."""
        error = caller.refusal(answer, address_of(outgoing.url).shown)
        retried = self._config.is_retried(answer.status)
        if error.code == "http.not_found" and self._bodies.are_addressed and not retried:
            return DataError(error.code, error.message, fix="Check `url` and the row.")
        if retried == isinstance(error, RetriableError):
            return error
        kind = RetriableError if retried else DataError
        code = "http.server_error" if retried else "http.refused"
        return kind(code, error.message, fix=error.fix, retry_after=error.retry_after)


class _EndedError(Exception):
    """Another lane failed."""
