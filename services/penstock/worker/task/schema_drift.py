"""Announces schemas to a write end as the policy of `penstock.model.schema_drift` says."""

from __future__ import annotations

import pyarrow as pa

from penstock.model.errors import SchemaError
from penstock.model.schema_drift import DriftRules, Policy, Refusal, fit, wishes
from penstock.model.step import Step
from penstock.worker.ports import Apply, WriteStream


class Drift:
    """The datasets of one run, and what their places have; see `ports.Announcer`."""

    def __init__(self, rules: DriftRules, writer: WriteStream) -> None:
        self._rules, self._writer = rules, writer
        self._announced: dict[str, pa.Schema] = {}

    async def announce(self, dataset: str, rows: pa.Schema, apply: Apply) -> Step | None:
        """Announce rows of a dataset; returns the step that brings them to what was agreed on,
        None when they go as they are.

        Raises:
            SchemaError: the policy or the write end refuses.
        """
        place = await self._place(dataset)
        if place is None or self._rules.asks_everything:
            agreed = rows
            await apply(rows)
        else:
            try:
                schemas = wishes(place, rows, self._rules, dataset)
            except SchemaError as error:
                if self._rules.policy is not Policy.DEAD_LETTER:
                    raise
                return await self._refused(dataset, place, error, apply)
            agreed = await _first_taken(schemas, apply)
        self._announced[dataset] = _joined(place, agreed)
        kernel = fit(rows, agreed, dataset)
        return None if kernel is None else Step(kernel=kernel)

    async def _refused(
        self, dataset: str, place: pa.Schema, error: SchemaError, apply: Apply
    ) -> Step:
        await apply(place)  # the write end hears of rows before any come, and none do
        self._announced[dataset] = place
        return Step(kernel=Refusal(place, error.diagnostic))

    async def _place(self, dataset: str) -> pa.Schema | None:
        """Return the columns that are there; None when nothing is, or nothing is known."""
        if self._rules.asks_everything:
            return None
        there = await self._writer.columns(dataset)
        return self._announced.get(dataset) if there is None else there


async def _first_taken(schemas: tuple[pa.Schema, ...], apply: Apply) -> pa.Schema:
    *others, last = schemas
    for schema in others:
        try:
            await apply(schema)
        except SchemaError:
            continue
        return schema
    await apply(last)
    return last


def _joined(place: pa.Schema | None, agreed: pa.Schema) -> pa.Schema:
    """Return the columns of a place after a change: nothing is ever removed from it."""
    if place is None:
        return agreed
    gone = [field for field in place if agreed.get_field_index(field.name) < 0]
    return pa.schema([*agreed, *gone])
