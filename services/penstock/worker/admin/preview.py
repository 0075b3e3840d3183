"""Rows that people write down, as Arrow: types are told by their values, or are declared."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from penstock.model.connector import Connector, ConnectorKind
from penstock.model.errors import ConfigError, RetriableError, error_of
from penstock.model.identity import new_generation
from penstock.model.live_rows import MOST_ROW_BYTES
from penstock.model.preview_rows import MOST_BYTES, MOST_ROWS, Given, Rehearsed
from penstock.model.step import Step
from penstock.model.stream import BatchReady, Drained, SchemaSeen
from penstock.model.ticket import SlotReport, SlotTicket, Ticket
from penstock.plugin import PluginHost
from penstock.secrets import NO_SECRETS, Secrets
from penstock.spark.ends import json_lines
from penstock.spark.engine import Engine
from penstock.topic.embedded.topics import EmbeddedTopics
from penstock.transform.functions.declared import declared
from penstock.transform.sql import quoting
from penstock.worker.config.plugin_transforms import chain_of, plug
from penstock.worker.config.reach import NO_RULES, Rules
from penstock.worker.config.resolved_config import Design, acquire, design_of, refuse_errors
from penstock.worker.endpoints import EndMaker
from penstock.worker.planning.plans import Planner
from penstock.worker.ports import ReadStream


def rows_of(given: Given) -> pa.RecordBatch:
    """Return rows that are given. Their columns stand in the order in which they are met.

    Raises:
        ConfigError: `rehearsal.rows`: a row is no object, or a value not of its column's type;
            `rehearsal.too_much`.
    """
    size = sum(len(text.encode()) for text in given.rows)
    if len(given.rows) > MOST_ROWS or size > MOST_BYTES:
        raise ConfigError(
            "rehearsal.too_much",
            f"{len(given.rows)} rows of {size} bytes are given, {MOST_ROWS} of {MOST_BYTES} may be",
            fix="Choose the rows that show what the transforms do.",
        )
    rows = [_object(number, text) for number, text in enumerate(given.rows, 1)]
    names = dict.fromkeys(name for row in (*rows, given.columns) for name in row)
    fields = [_field(name, given, [row.get(name) for row in rows]) for name in names]
    lines = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
    try:
        return json_lines.read(lines, pa.schema(fields))
    except json_lines.NotRows as error:
        raise _wrong(str(error)) from None


def _object(number: int, text: str) -> dict[str, Any]:
    try:
        row = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _wrong(f"row {number}: {error}") from None
    if not isinstance(row, dict):
        raise _wrong(f"row {number} is no object")
    return row


def _field(name: str, given: Given, values: list[Any]) -> pa.Field:
    if name in given.columns:
        text = f"{quoting.name(name)} {given.columns[name]}"
        return declared(text, f"columns.{name}").field(0)
    try:
        type_ = pa.array(values).type
    except (pa.ArrowException, OverflowError) as error:
        raise _wrong(f"column {name!r}: {error}") from None
    return pa.field(name, pa.string() if pa.types.is_null(type_) else type_)


def _wrong(what: str) -> ConfigError:
    return ConfigError(
        "rehearsal.rows",
        f"these are no rows: {what}"[:1000],
        fix="Write each as an object, its values as JSON lines have them; `columns` names the type "
        "of those that need another one.",
    )


WITHIN: Final = 10.0
"""Seconds in which rows have to come: a person waits."""

_EPOCH: Final = 1
"""Nobody else has a task of this name, so any epoch is the newest."""


@dataclass(frozen=True, slots=True)
class Taste:
    """Rows where they can be fetched: `read` is the ticket of their read end."""

    dataset: str
    schema: pa.Schema
    rows: int
    read: dict[str, Any]


class Tasting:
    """Takes rows from read ends, with the plugins and topics of a worker."""

    def __init__(self, host: PluginHost, planner: Planner, topics: EmbeddedTopics) -> None:
        """`planner` says where the rows of a source are."""
        self._host, self._planner, self._ends = host, planner, EndMaker(host, topics)

    @asynccontextmanager
    async def rows(self, design: Design, given: Given, *, places: bool) -> AsyncIterator[Taste]:
        """Give rows that can be fetched in the body: those that are given, or the first of the
        source, of one dataset.

        Raises:
            ConfigError: `rehearsal.rows`, `rehearsal.source_keeps`.
            RetriableError: `rehearsal.no_rows`.
        """
        if not given.sample:
            rows = rows_of(given)
            yield Taste(given.dataset, rows.schema, rows.num_rows, _given(rows))
            return
        reader = await self._reader(design, places=places)
        try:
            yield await self._first(reader, min(given.sample, MOST_ROWS))
        finally:
            await reader.close()

    async def _reader(self, design: Design, *, places: bool) -> ReadStream:
        await self._refuse_keeping(design)
        planned = await self._planner.plan(design.connector)
        # a name of its own: the plugin may have a task of the connector
        plan = replace(planned.plans[0], task_id=f"taste-{new_generation()}")
        return (await self._ends.read_end(design, _EPOCH, places=places))(plan)

    async def _first(self, reader: ReadStream, rows: int) -> Taste:
        try:
            async with asyncio.timeout(WITHIN):
                await reader.open()
                taste = await _first(reader, rows)
        except TimeoutError:
            raise _no_rows(f"none came within {WITHIN:g} s") from None
        if taste is None:
            raise _no_rows("it has none")
        return taste

    async def _refuse_keeping(self, design: Design) -> None:
        if design.kind not in {ConnectorKind.SOURCE, ConnectorKind.PIPELINE}:
            return
        process, target = await acquire(self._host, design, "source")
        if process.spec.source.needs_commit:
            raise ConfigError(
                "rehearsal.source_keeps",
                f"{target.connector} keeps for a reader what it has not been told about (a slot, a "
                "queue), so it is not opened to look",
                fix="Give rows of your own.",
                config_path=design.plugin_path("connector.class", "source"),
            )


async def _first(reader: ReadStream, rows: int) -> Taste | None:
    """Return the first rows; fewer when there are no more."""
    schemas: dict[int, SchemaSeen] = {}
    batches: list[BatchReady] = []
    async for event in reader:
        match event:
            case SchemaSeen():
                schemas[event.schema.schema_id] = event
            case BatchReady() if not batches or event.schema_id == batches[0].schema_id:
                batches.append(event)
            case Drained():
                break
        if sum(one.rows for one in batches) >= rows:
            break
    if not batches:
        return None
    schema = schemas[batches[0].schema_id].schema
    read = reader.ticket([one.seq for one in batches], schema.schema_id)
    return Taste(schema.dataset, schema.arrow, sum(one.rows for one in batches), read)


def _no_rows(why: str) -> RetriableError:
    return RetriableError(
        "rehearsal.no_rows", f"the source gave no rows: {why}", fix="Give rows of your own."
    )


def _given(rows: pa.RecordBatch) -> dict[str, Any]:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    return {"kind": "given", "rows": base64.b64encode(bytes(sink.getvalue())).decode()}


async def check_design(
    host: PluginHost, secrets: Secrets, reach: Rules, connector: Connector
) -> None:
    """Refuse a connector that cannot be rehearsed whatever its rows are. No plugin is started.

    Raises:
        ConfigError: it is not valid.
    """
    refuse_errors((await design_of(host, secrets, connector, reach)).findings)


class Rehearsals:
    """Rehearses with the plugins, the topics and the engine of a worker."""

    def __init__(
        self,
        host: PluginHost,
        engine: Engine,
        tasting: Tasting,
        functions: Sequence[Path] = (),
        secrets: Secrets = NO_SECRETS,
        reach: Rules = NO_RULES,
    ) -> None:
        """`functions` are the folders with Python functions."""
        self._host, self._engine, self._tasting = host, engine, tasting
        self._functions, self._secrets, self._reach = functions, secrets, reach

    async def of(self, connector: Connector, given: Given) -> Rehearsed:
        """Return what becomes of rows.

        Raises:
            ConfigError: the connector is not valid, or the rows are not: `rehearsal.rows`.
            DataError: a row failed in a step that cannot set rows apart.
            RetriableError: `rehearsal.no_rows`.
        """
        design = await design_of(self._host, self._secrets, connector, self._reach)
        refuse_errors(design.findings)
        chain = chain_of(self._host, design, self._functions)
        routed, held = await plug(self._host, chain, design, lambda *_: None)
        await self._engine.ready()
        async with self._tasting.rows(design, given, places=chain.wants_places) as rows:
            with held:
                way = routed.compile(rows.dataset, rows.schema)
                report = await self._run(design, rows, way.steps, given.sample or rows.rows)
        return _rehearsed(report, way.dataset)

    async def _run(
        self, design: Design, rows: Taste, steps: Sequence[Step], shown: int
    ) -> SlotReport:
        name = f"{design.connector.name}#rehearsal"
        build = self._engine.build
        plan = await asyncio.to_thread(build, name, rows.schema, steps, 1, numbered=True)
        write = {"kind": "look", "rows": min(shown, MOST_ROWS), "row_bytes": MOST_ROW_BYTES}
        slot = SlotTicket(0, rows.rows, rows.read, write)
        ticket = Ticket(name, 0, 0, (slot,), design.settings.stall)
        (report,) = await self._engine.run(plan, ticket, lag=0.0)
        return report


def _rehearsed(report: SlotReport, dataset: str) -> Rehearsed:
    if report.error is not None:
        raise error_of(report.error)
    failed = tuple((row + 1, reason) for row, reason in report.set_apart)
    return Rehearsed(tuple(text for text, *_ in report.detail["rows"]), dataset, failed)
