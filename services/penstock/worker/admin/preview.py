"""Runs sample rows through the chain of a connector. Sample rows are given as JSON, or read from
its source. Nothing is written.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa

from penstock.model.connector import Connector, ConnectorKind, new_generation
from penstock.model.dead_letter_queue import MAX_REJECTED_ROWS
from penstock.model.errors import (
    ConfigError,
    DataError,
    Diagnostic,
    PenstockError,
    RetriableError,
    error_from_diagnostic,
)
from penstock.model.inspection import (
    MAX_PREVIEW_BYTES,
    MAX_PREVIEW_ROWS,
    MAX_ROW_BYTES,
    MAX_UNREAD_REASONS,
    PreviewRequest,
    PreviewResult,
)
from penstock.model.step import Step
from penstock.model.stream import BadRow, BatchReady, EndOfStream, SchemaVersion, StreamSchema
from penstock.model.ticket import SlotReport, SlotTicket, Ticket
from penstock.plugin.host import PluginHost
from penstock.spark.connector_io import json_lines
from penstock.spark.engine import Engine
from penstock.topic.embedded.topics import EmbeddedTopics
from penstock.transform.functions.column_declaration import parse_columns
from penstock.transform.sql import literals
from penstock.worker.config.plugin_transforms import attach_plugins, build_connector_chain
from penstock.worker.config.resolved_config import ResolvedConfig, WorkerContext, acquire_plugin
from penstock.worker.ports import SourceReader
from penstock.worker.streams import StreamFactory
from penstock.worker.task_plans import Planner


def read_preview_rows(request: PreviewRequest) -> pa.RecordBatch:
    """Return given rows as Arrow. Types are declared, or inferred from the values. Columns are in
    order of first appearance.

    Raises:
        ConfigError: `rehearsal.rows`: a row is no object, or a value does not have the type of its
            column; `rehearsal.too_much`.
    """
    size = sum(len(text.encode()) for text in request.rows)
    if len(request.rows) > MAX_PREVIEW_ROWS or size > MAX_PREVIEW_BYTES:
        raise ConfigError(
            "rehearsal.too_much",
            f"the request has {len(request.rows)} rows of {size} bytes, at most "
            f"{MAX_PREVIEW_ROWS} rows of {MAX_PREVIEW_BYTES} bytes are allowed",
            fix="Choose fewer rows: those that show what the transforms do.",
        )
    rows = [_parse_row(number, text) for number, text in enumerate(request.rows, 1)]
    names = dict.fromkeys(name for row in (*rows, request.columns) for name in row)
    fields = [_field(name, request, [row.get(name) for row in rows]) for name in names]
    lines = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
    try:
        return json_lines.parse_rows(lines, pa.schema(fields))
    except json_lines.InvalidRowsError as error:
        raise _invalid_rows(str(error)) from None


def _parse_row(number: int, text: str) -> dict[str, Any]:
    try:
        row = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _invalid_rows(f"row {number}: {error}") from None
    if not isinstance(row, dict):
        raise _invalid_rows(f"row {number} is not an object")
    return row


def _field(name: str, request: PreviewRequest, values: list[Any]) -> pa.Field:
    if name in request.columns:
        text = f"{literals.name(name)} {request.columns[name]}"
        return parse_columns(text, f"columns.{name}").field(0)
    try:
        type_ = pa.array(values).type
    except (pa.ArrowException, OverflowError) as error:
        raise _invalid_rows(f"column {name!r}: {error}") from None
    return pa.field(name, pa.string() if pa.types.is_null(type_) else type_)


def _invalid_rows(what: str) -> ConfigError:
    return ConfigError(
        "rehearsal.rows",
        f"the given rows cannot be read: {what}"[:1000],
        fix="Write each row as a JSON object with values as in JSON lines. `columns` sets the "
        "types of columns that need another type.",
    )


SAMPLE_TIMEOUT_S: Final = 10.0
"""Time in which the source must return rows: a user waits."""

_EPOCH: Final = 1
"""No other task has this name, so any epoch is the newest."""


@dataclass(frozen=True, slots=True)
class PreviewRows:
    """Rows that an executor can fetch. `read` is the ticket of their source reader. `unread` are
    the reasons of rows among them that the source could not read.
    """

    dataset: str
    schema: pa.Schema
    rows: int
    read: dict[str, Any]
    unread: tuple[Diagnostic, ...] = ()


class PreviewSource:
    """Provides sample rows, from the request or from the source of a connector."""

    def __init__(self, host: PluginHost, planner: Planner, topics: EmbeddedTopics) -> None:
        """`planner` finds the partitions of a source."""
        self._host, self._planner, self._streams = host, planner, StreamFactory(host, topics)

    @asynccontextmanager
    async def open(
        self, resolved: ResolvedConfig, request: PreviewRequest, *, places: bool
    ) -> AsyncIterator[PreviewRows]:
        """Yield rows of one dataset that can be fetched in the block: those of the request, or the
        first of the source.

        Raises:
            ConfigError: `rehearsal.rows`, `rehearsal.source_keeps`.
            RetriableError: `rehearsal.no_rows`.
        """
        if not request.sample:
            rows = read_preview_rows(request)
            yield PreviewRows(request.dataset, rows.schema, rows.num_rows, _inline_rows(rows))
            return
        reader = await self._reader(resolved, places=places)
        try:
            yield await self._first(reader, min(request.sample, MAX_PREVIEW_ROWS))
        finally:
            await reader.close()

    async def _reader(self, resolved: ResolvedConfig, *, places: bool) -> SourceReader:
        await self._refuse_stateful_source(resolved)
        planned = await self._planner.plan(resolved.connector)
        # an own name: the plugin may run a task of the connector
        plan = replace(planned.plans[0], task_id=f"preview-{new_generation()}")
        return (await self._streams.reader_opener(resolved, _EPOCH, places=places))(plan)

    async def _first(self, reader: SourceReader, rows: int) -> PreviewRows:
        sample, why = _Sample(), "it is empty"
        try:
            async with asyncio.timeout(SAMPLE_TIMEOUT_S):
                await reader.open()
                await sample.take(reader, rows)
        except TimeoutError:
            why = f"none arrived within {SAMPLE_TIMEOUT_S:g} s"  # those that did are shown
        if not sample.batches:
            raise _no_rows(why, sample.unread)
        return sample.rows_of(reader)

    async def _refuse_stateful_source(self, resolved: ResolvedConfig) -> None:
        if resolved.kind not in {ConnectorKind.SOURCE, ConnectorKind.PIPELINE}:
            return
        process, target = await acquire_plugin(self._host, resolved, "source")
        if process.spec.source.needs_commit:
            raise ConfigError(
                "rehearsal.source_keeps",
                f"{target.connector} keeps state for its reader, such as a replication slot or a "
                "queue, so it is not opened for a preview",
                fix="Give the rows yourself: under `tests:` of the file for `penstock test`, or "
                "with the request instead of `sample`.",
                config_path=resolved.plugin_key("connector.class", "source"),
            )


@dataclass(slots=True)
class _Sample:
    """What a source announced of its first rows: those of the first schema, and the reasons of
    those that it could not read.
    """

    schemas: dict[int, StreamSchema] = field(default_factory=dict)
    batches: list[BatchReady] = field(default_factory=list)
    unread: list[Diagnostic] = field(default_factory=list)

    async def take(self, reader: SourceReader, rows: int) -> None:
        """Take the first `rows` rows, or fewer when the source ends."""
        async for event in reader:
            match event:
                case SchemaVersion():
                    self.schemas[event.schema.schema_id] = event.schema
                case BatchReady():
                    if not self.batches or event.schema_id == self.batches[0].schema_id:
                        self.batches.append(event)
                case BadRow():
                    self.unread.append(event.reason)
                case EndOfStream():
                    return
            if self.count >= rows or len(self.unread) > MAX_REJECTED_ROWS:
                return

    @property
    def count(self) -> int:
        """The number of rows."""
        return sum(one.rows for one in self.batches)

    def rows_of(self, reader: SourceReader) -> PreviewRows:
        """Return the rows, as an executor fetches them."""
        schema = self.schemas[self.batches[0].schema_id]
        read = reader.ticket([one.seq for one in self.batches], schema.schema_id)
        return PreviewRows(schema.dataset, schema.arrow, self.count, read, tuple(self.unread))


def _no_rows(why: str, unread: Sequence[Diagnostic]) -> PenstockError:
    if unread:
        first = unread[0]
        return DataError(
            "rehearsal.no_good_rows",
            f"the source could read none of the first {len(unread)} rows: {first.message}",
            fix=first.fix or "Correct the rows, or the keys of the source that tell their format.",
            config_path=first.config_path,
        )
    return RetriableError(
        "rehearsal.no_rows",
        f"the source returned no rows: {why}",
        fix="Pass rows with the request instead of `sample`.",
    )


def _inline_rows(rows: pa.RecordBatch) -> dict[str, Any]:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    return {"kind": "planned", "rows": base64.b64encode(bytes(sink.getvalue())).decode()}


class EnginePreviews:
    """Previews in the engine of this process."""

    def __init__(self, context: WorkerContext, engine: Engine, source: PreviewSource) -> None:
        self._context, self._engine, self._source = context, engine, source

    async def preview(self, connector: Connector, request: PreviewRequest) -> PreviewResult:
        """Return what the chain makes of the rows.

        Raises:
            ConfigError: the connector is not valid, or the rows are not: `rehearsal.rows`.
            DataError: a row failed in a step that cannot reject single rows.
            RetriableError: `rehearsal.no_rows`.
        """
        host = self._context.host
        resolved = await self._context.resolve_valid(connector)
        chain = build_connector_chain(host, resolved, self._context.functions)
        task_chain, keep_alive = await attach_plugins(host, chain, resolved, lambda *_: None)
        await self._engine.wait_until_ready()
        async with self._source.open(resolved, request, places=chain.needs_positions) as rows:
            with keep_alive:
                compiled = task_chain.compile(rows.dataset, rows.schema)
                report = await self._run(
                    resolved, rows, compiled.steps, request.sample or rows.rows
                )
        return _preview_result(report, compiled.dataset, rows.unread)

    async def _run(
        self, resolved: ResolvedConfig, rows: PreviewRows, steps: Sequence[Step], shown: int
    ) -> SlotReport:
        name = f"{resolved.connector.name}#rehearsal"
        build = self._engine.build
        plan = await asyncio.to_thread(build, name, rows.schema, steps, 1, number_rows=True)
        write = {
            "kind": "live_rows",
            "rows": min(shown, MAX_PREVIEW_ROWS),
            "row_bytes": MAX_ROW_BYTES,
        }
        slot = SlotTicket(0, rows.rows, rows.read, write)
        ticket = Ticket(name, 0, 0, (slot,), resolved.settings.stall_timeout_s)
        (report,) = await self._engine.run(plan, ticket, lag=0.0)
        return report


def _preview_result(
    report: SlotReport, dataset: str, unread: Sequence[Diagnostic]
) -> PreviewResult:
    if report.error is not None:
        raise error_from_diagnostic(report.error)
    failed = tuple((row + 1, reason) for row, reason in report.rejected_by_chain)
    rows = tuple(text for text, *_ in report.detail["rows"])
    return PreviewResult(rows, dataset, failed, len(unread), tuple(unread[:MAX_UNREAD_REASONS]))
