"""Tells what a connector's chain makes of rows: those that are given, or the first of its source.
The write end stays closed: nothing is written, no offset is stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from penstock.model.connector import Connector
from penstock.model.errors import error_of
from penstock.model.looks import MOST_ROW_BYTES
from penstock.model.rehearsal import MOST_ROWS, Given, Rehearsed
from penstock.model.step import Step
from penstock.model.ticket import SlotReport, SlotTicket, Ticket
from penstock.plugin import PluginHost
from penstock.secrets import NO_SECRETS, Secrets
from penstock.spark.engine import Engine
from penstock.worker.design import Design, design_of, refuse_errors
from penstock.worker.plugging import chain_of, plug
from penstock.worker.reach import NO_RULES, Rules
from penstock.worker.tasting import Taste, Tasting


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
