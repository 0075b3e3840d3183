"""`http-source`: the task. It asks, takes what is new, and waits."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final

from penstock_connector import Batch, ConnectorError, Partition, RawRow, Source
from penstock_net.http_source.asking import Question, question
from penstock_net.http_source.columns import Columns, Row
from penstock_net.http_source.config import HttpSourceConfig
from penstock_net.http_source.converting import MESSAGE, MessageColumns
from penstock_net.http_source.cursor import CursorWalk
from penstock_net.http_source.decoding import BadRow, Decoded, Decoder
from penstock_net.http_source.pointer import Pointer
from penstock_net.http_source.raw_rows import parse_raw_rows
from penstock_net.http_source.walking import (
    NextWalk,
    Offset,
    PageWalk,
    RowWalk,
    SnapshotWalk,
    Step,
    Walk,
)
from penstock_net.web.address import address_of
from penstock_net.web.client import Answer
from penstock_net.web.login import Caller

_NOTHING: Final = frozenset({204, 304})
"""Statuses that mean that there is nothing: no content, and not modified."""

_log = logging.getLogger(__name__)


class HttpSource(Source[HttpSourceConfig]):
    """Rows of web APIs.

    Polls an address for JSON, JSON lines or CSV and gives what is new: by a growing field, by
    pages, by links, or all rows whenever the answer changed.
    """

    name = "http-source"
    title = "Rows of web APIs"
    bounded: ClassVar[bool] = True  # asked for `finished`, which says no with `tail`

    @classmethod
    def check(cls, config: HttpSourceConfig) -> None:
        """Ask once, and read the answer."""
        caller = Caller(config)
        try:
            asked = _walk(config, None).ask()
            answer = _asked(caller, config, asked, {})
            if answer.status not in _nothing(config):
                _decoder(config).decode(answer, address_of(asked.url).shown)
        finally:
            caller.close()

    @classmethod
    def plan(
        cls, config: HttpSourceConfig, max_tasks: int, known: Sequence[Partition]
    ) -> Sequence[Partition]:
        """Return one partition: the address."""
        return [Partition({"url": config.url}, bounded=not config.tail)]

    @classmethod
    def parse_rows(
        cls, config: HttpSourceConfig, rows: Sequence[RawRow]
    ) -> Iterator[Batch | ConnectorError]:
        """Read single rows again."""
        columns = _columns(config)
        try:
            yield from parse_raw_rows(config, columns, rows, lambda: _present_rows(config))
        finally:
            if isinstance(columns, MessageColumns):
                columns.close()

    def connect(self, partitions: Sequence[Partition]) -> None:
        """Go on where the offset says."""
        config = self.config
        (self._partition,) = partitions
        offset = self._partition.offset
        self._caller = Caller(config)
        self._decoder = _decoder(config)
        self._columns = _columns(config)
        self._retries = config.retry_rules()
        self._walk = _walk(config, offset)
        self._offset: Offset | None = offset
        self._validators = _Validators(config, offset)
        self._failures, self._due = 0, 0.0
        self._ended = self._caught_up = False

    def read_batch(self) -> Batch | None:
        """Ask when it is time to, and return what is new."""
        if self._ended or self.stopping.is_set() or time.monotonic() < self._due:
            return None
        asked = self._walk.ask()
        try:
            answer = _asked(self._caller, self.config, asked, self._validators.headers(asked))
            decoded = self._decoded(answer, asked)
        except ConnectorError as error:
            self._fail(error)
            return None
        self._failures = 0
        if decoded is None:
            self._rest()
            return None
        step = self._walk.took(answer, decoded)
        self._validators.keep(asked, answer, more=step.more)
        if not step.more:
            self._rest()
        return self._batch(step, decoded.bad)

    def wait(self, timeout: float) -> None:
        """Block until it is time to ask again."""
        due = float("inf") if self._ended else self._due - time.monotonic()
        self._woken.wait(max(min(timeout, due), 0))
        self._woken.clear()

    def wake(self) -> None:
        """End a wait; at the end of the task a running request, too."""
        super().wake()
        if self.stopping.is_set() and hasattr(self, "_caller"):
            self._caller.cut()

    def finished(self) -> bool:
        """Return whether all was read, once."""
        return self._ended

    def caught_up(self) -> bool:
        """Return whether a round of questions came to its end."""
        return self._caught_up

    def close(self) -> None:
        """Let go of the connection."""
        if hasattr(self, "_caller"):
            self._caller.close()
        columns = getattr(self, "_columns", None)
        if isinstance(columns, MessageColumns):
            columns.close()

    def _decoded(self, answer: Answer, asked: Question) -> Decoded | None:
        """Return what an answer holds; None when nothing changed."""
        if answer.status == 304:
            return None
        if answer.status in _nothing(self.config):
            return Decoded([])
        return self._decoder.decode(answer, address_of(asked.url).shown)

    def _rest(self) -> None:
        """All is read for now."""
        self._ended, self._caught_up = not self.config.tail, True
        self._due = time.monotonic() + self.config.poll_interval

    def _fail(self, error: ConnectorError) -> None:
        """Wait for what can be healed; raise everything else."""
        if self.stopping.is_set():
            return  # the request was cut, because the task ends
        self._failures += 1
        pause = self._retries.pause(self._failures, error)
        if pause is None:
            raise error
        _log.warning("trying again in %.1f s: %s", pause, error)
        self._due = time.monotonic() + pause

    def _batch(self, step: Step, bad: list[BadRow]) -> Batch | None:
        if not step.rows and not bad and step.offset == self._offset:
            return None
        self._offset = step.offset
        rows: Any = ()
        if step.rows:
            rows, misfits = self._columns.of(step.rows)
            if misfits and self.config.invalid_rows == "fail":
                raise misfits[0][1]
            bad = [*bad, *((_bytes(step.rows[at]), error) for at, error in misfits)]
        return Batch(
            rows=rows,
            partition=self._partition,
            offset=step.offset,
            dataset=self.config.dataset,
            key_columns=self.config.key_columns,
            bad_rows=bad,
        )


class _Validators:
    """ETag and Last-Modified of the answer that may come again: the last one of a round."""

    def __init__(self, config: HttpSourceConfig, offset: Offset | None) -> None:
        self._asked: Question | None = None
        self._etag = self._modified = ""
        if config.mode == "snapshot" and offset:
            self._asked = question(config, "")
            self._etag, self._modified = str(offset["etag"]), str(offset["modified"])

    def headers(self, asked: Question) -> dict[str, str]:
        """Return what makes the other side answer only when there is something new."""
        if asked != self._asked or asked.body is not None:
            return {}
        given = {"If-None-Match": self._etag, "If-Modified-Since": self._modified}
        return {name: value for name, value in given.items() if value}

    def keep(self, asked: Question, answer: Answer, *, more: bool) -> None:
        """Remember an answer of which all rows were given."""
        self._asked = None if more else asked
        self._etag, self._modified = answer.header("ETag"), answer.header("Last-Modified")


def _walk(config: HttpSourceConfig, offset: Offset | None) -> Walk:
    match config.mode:
        case "cursor":
            return CursorWalk(config, offset)
        case "page":
            return PageWalk(config, offset)
        case "offset":
            return RowWalk(config, offset)
        case "next":
            return NextWalk(config, offset)
    return SnapshotWalk(config, offset)


def _present_rows(config: HttpSourceConfig) -> Sequence[Row]:
    """Return the rows of the first answer, by which the columns of others are known."""
    caller = Caller(config)
    try:
        asked = _walk(config, None).ask()
        answer = _asked(caller, config, asked, {})
        if answer.status in _nothing(config):
            return []
        return _decoder(config).decode(answer, address_of(asked.url).shown).rows
    finally:
        caller.close()


def _decoder(config: HttpSourceConfig) -> Decoder:
    return Decoder(
        config.format,
        Pointer(config.rows_pointer, "rows.pointer"),
        config.csv_delimiter,
        tolerant=config.invalid_rows == "dead-letter",
        messages=bool(config.value_converter),
        exact=bool(config.value_converter)
        or any("decimal(" in column for column in config.columns),
    )


def _nothing(config: HttpSourceConfig) -> frozenset[int]:
    return _NOTHING | {int(status) for status in config.empty_statuses}


def _asked(
    caller: Caller, config: HttpSourceConfig, asked: Question, headers: dict[str, str]
) -> Answer:
    if asked.body is not None and "content-type" not in map(str.lower, config.plain_headers()):
        headers = {**headers, "Content-Type": "application/json"}
    return caller.ask(
        asked.url, method=config.method, headers=headers, body=asked.body, fine=_nothing(config)
    )


def _columns(config: HttpSourceConfig) -> Columns | MessageColumns:
    if not config.value_converter:
        return Columns(config.columns)
    keys = config.value_converter_keys
    return MessageColumns(config.value_converter, keys, config.dataset or "http")


def _bytes(row: dict[str, Any]) -> bytes:
    if isinstance(row.get(MESSAGE), bytes):
        return bytes(row[MESSAGE])
    import json  # noqa: PLC0415 - only rows that are bad need it

    return json.dumps(row, default=str).encode()
