"""Rows whose columns differ from those at the sink: what `schema.evolution` makes of them."""

from __future__ import annotations

import pyarrow as pa

from penstock.model.drift_policy import DriftPolicy, DriftRules
from penstock.model.errors import SchemaError
from penstock.model.schema_drift import RejectAllKernel, list_schema_requests, make_fit_kernel
from penstock.model.step import Step
from penstock.worker.ports import ApplySchema, SinkWriter


class DriftHandler:
    """Applies the schema-evolution policy to the datasets of one run; see
    `ports.SchemaAnnouncer`.
    """

    def __init__(self, rules: DriftRules, writer: SinkWriter) -> None:
        self._rules, self._writer = rules, writer
        self._announced: dict[str, pa.Schema] = {}

    async def announce(self, dataset: str, rows: pa.Schema, apply: ApplySchema) -> Step | None:
        """Announce rows of a dataset to the sink. Returns the step that converts them to the
        columns that the sink accepted, None when they need no change.

        Raises:
            SchemaError: the policy or the sink refuses the rows.
        """
        place = await self._known_columns(dataset)
        if place is None or self._rules.requests_all_changes:
            agreed = rows
            await apply(rows)
        else:
            try:
                schemas = list_schema_requests(place, rows, self._rules, dataset)
            except SchemaError as error:
                if self._rules.policy is not DriftPolicy.DEAD_LETTER:
                    raise
                return await self._reject_all(dataset, place, error, apply)
            agreed = await _apply_first_accepted(schemas, apply)
        self._announced[dataset] = _merge_columns(place, agreed)
        kernel = make_fit_kernel(rows, agreed, dataset)
        return None if kernel is None else Step(kernel=kernel)

    async def _reject_all(
        self, dataset: str, place: pa.Schema, error: SchemaError, apply: ApplySchema
    ) -> Step:
        await apply(place)  # the sink has to know the schema although it gets no rows of it
        self._announced[dataset] = place
        return Step(kernel=RejectAllKernel(place, error.diagnostic))

    async def _known_columns(self, dataset: str) -> pa.Schema | None:
        """Return the columns of a dataset at the sink; None when it does not exist or is
        not known.
        """
        if self._rules.requests_all_changes:
            return None
        there = await self._writer.columns(dataset)
        return self._announced.get(dataset) if there is None else there


async def _apply_first_accepted(schemas: tuple[pa.Schema, ...], apply: ApplySchema) -> pa.Schema:
    *others, last = schemas
    for schema in others:
        try:
            await apply(schema)
        except SchemaError:
            continue
        return schema
    await apply(last)
    return last


def _merge_columns(place: pa.Schema | None, agreed: pa.Schema) -> pa.Schema:
    """Return the columns at the sink after a change. A change never removes a column."""
    if place is None:
        return agreed
    gone = [field for field in place if agreed.get_field_index(field.name) < 0]
    return pa.schema([*agreed, *gone])
