"""The first rows that a source has, for somebody who only wants to see some: no offset is stored,
and nothing is told to the source.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from penstock.model.connector import ConnectorKind
from penstock.model.errors import ConfigError, RetriableError
from penstock.model.identity import new_generation
from penstock.model.rehearsal import MOST_ROWS, Given
from penstock.model.stream import BatchReady, Drained, SchemaSeen
from penstock.plugin import PluginHost
from penstock.topic.embedded.topics import EmbeddedTopics
from penstock.worker.design import Design, acquire
from penstock.worker.ends import EndMaker
from penstock.worker.given import rows_of
from penstock.worker.planning import Planner
from penstock.worker.ports import ReadStream

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
