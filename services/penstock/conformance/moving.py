"""Transactions of a sink, put together from what `writing` has: rows of the kit on their way."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from penstock.api.connector.v1 import sink_service_pb2 as pb
from penstock.conformance.bench import Bench
from penstock.conformance.making import Rows
from penstock.conformance.process import Plugin
from penstock.conformance.rows import Row
from penstock.conformance.seen import compare, seen
from penstock.conformance.verdict import NotApplicableError, RuleBrokenError, reasons, require
from penstock.conformance.world import World
from penstock.conformance.writing import Put, WriteOrder, Writing, writing


class Trip:
    """One world of a sink: the rows that go there, over several lives of its task."""

    def __init__(self, bench: Bench, world: World) -> None:
        declared = bench.declared
        if not declared.columns:
            raise NotApplicableError("`columns` does not declare what the sink takes")
        if not declared.output:
            raise NotApplicableError("`output` does not say where rows are seen")
        self.world = world
        self.rows = Rows(declared, bench.grounds.folder)
        self.dataset = declared.dataset
        self.order = WriteOrder(task_id=bench.task_id())
        self._bench = bench
        self._taken = 0

    def next_rows(self, count: int) -> list[Row]:
        """Return rows that no one had before."""
        self._taken += count
        return self.rows.take(self._taken - count, count)

    @asynccontextmanager
    async def life(self, plugin: Plugin, **more: Any) -> AsyncIterator[Writing]:
        """Open the task; its schema is in force."""
        async with writing(plugin, self.world, replace(self.order, **more)) as task:
            applied = await task.schema(self.rows.schema, self.dataset, self.rows.keys)
            require(not applied.refused, f"its schema is refused: {reasons(applied.diagnostics)}")
            yield task

    async def put(self, task: Writing, rows: Sequence[Row], ticket: Put) -> None:
        """Put rows as one batch, all of which have to be taken."""
        results = await task.put([rows], self.rows.schema, ticket)
        require(len(results) == 1, f"{len(results)} answers to one batch")
        require(results[0].all_ok, f"rows were refused: {results[0].failed[:1]}")

    async def stage(self, task: Writing, txn_id: int, rows: Sequence[Row]) -> pb.Prepared:
        """Put rows into slot 0, and prepare them."""
        await self.put(task, rows, Put(txn_id))
        return await task.prepare(txn_id, [(0, 0, len(rows))])

    async def transact(self, task: Writing, txn_id: int, count: int = 3) -> list[Row]:
        """Write rows in a transaction: put, prepare, commit."""
        rows = self.next_rows(count)
        await self.stage(task, txn_id, rows)
        await task.commit(txn_id)
        return rows

    async def expect(self, plugin: Plugin, wanted: Sequence[Row], when: str) -> None:
        """Look at what is visible.

        Raises:
            RuleBrokenError: it is something else.
        """
        found = await seen(self.world, plugin)
        how = compare(wanted, found, ordered=self._bench.declared.ordered, keys=self.rows.keys)
        if how:
            raise RuleBrokenError(f"{when}: {how}")


@asynccontextmanager
async def trip(bench: Bench) -> AsyncIterator[Trip]:
    """Make a world for the rows of a case."""
    async with bench.own_world() as world:
        yield Trip(bench, world)
