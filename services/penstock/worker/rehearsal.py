"""Tells what a connector's chain makes of rows that are given. Its ends stay closed: nothing is
read, nothing is written, no offset is stored.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from penstock.model.connector import Connector
from penstock.model.errors import error_of
from penstock.model.looks import MOST_ROW_BYTES
from penstock.model.rehearsal import Given, Rehearsed
from penstock.model.ticket import SlotReport, SlotTicket, Ticket
from penstock.plugin import PluginHost
from penstock.secrets import NO_SECRETS, Secrets
from penstock.spark.engine import Engine
from penstock.worker.design import design_of, refuse_errors
from penstock.worker.given import rows_of
from penstock.worker.plugging import chain_of, plug


class Rehearsals:
    """Rehearses with the plugins and the engine of a worker."""

    def __init__(
        self,
        host: PluginHost,
        engine: Engine,
        functions: Sequence[Path] = (),
        secrets: Secrets = NO_SECRETS,
    ) -> None:
        """`functions` are the folders with Python functions."""
        self._host, self._engine = host, engine
        self._functions, self._secrets = functions, secrets

    async def of(self, connector: Connector, given: Given) -> Rehearsed:
        """Return what becomes of rows.

        Raises:
            ConfigError: the connector is not valid, or the rows are not: `rehearsal.rows`.
            DataError: a row failed in a step that cannot set rows apart.
        """
        design = await design_of(self._host, self._secrets, connector)
        refuse_errors(design.findings)
        rows = rows_of(given)
        chain = chain_of(self._host, design, self._functions)
        routed, held = await plug(self._host, chain, design, lambda *_: None)
        await self._engine.ready()
        with held:
            way = routed.compile(given.dataset, rows.schema)
            name = f"{connector.name}#rehearsal"
            plan = await asyncio.to_thread(
                self._engine.build, name, rows.schema, way.steps, 1, numbered=True
            )
            read = {"kind": "given", "rows": base64.b64encode(_stream(rows)).decode()}
            write = {"kind": "look", "rows": rows.num_rows, "row_bytes": MOST_ROW_BYTES}
            slot = SlotTicket(0, rows.num_rows, read, write)
            ticket = Ticket(name, 0, 0, (slot,), design.settings.stall)
            (report,) = await self._engine.run(plan, ticket, lag=0.0)
        return _rehearsed(report, way.dataset)


def _stream(rows: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    return bytes(sink.getvalue())


def _rehearsed(report: SlotReport, dataset: str) -> Rehearsed:
    if report.error is not None:
        raise error_of(report.error)
    failed = tuple((row + 1, reason) for row, reason in report.set_apart)
    return Rehearsed(tuple(text for text, *_ in report.detail["rows"]), dataset, failed)
