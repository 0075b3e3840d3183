"""A trial of a sink: generated rows go in, and the visible rows are compared with them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from penstock.api.connector.v1 import sink_service_pb2 as pb
from penstock.model.errors import ConfigError
from penstock_kit.conformance.bench import Bench
from penstock_kit.conformance.process import Plugin
from penstock_kit.conformance.results import (
    NotApplicableError,
    RuleBrokenError,
    format_diagnostics,
    require,
)
from penstock_kit.conformance.rows import Row, RowGenerator, equal_values, parse_json_lines
from penstock_kit.conformance.sandbox import Sandbox
from penstock_kit.conformance.sink_task import PutOptions, SinkTask, WriteOptions, open_sink
from penstock_kit.conformance.source_task import ReadOptions, open_source


class SinkTrial:
    """A sandbox of a sink with its rows, for several runs of its task."""

    def __init__(self, bench: Bench, sandbox: Sandbox) -> None:
        declaration = bench.declaration
        if not declaration.columns:
            raise NotApplicableError("`columns` is not declared")
        if not declaration.output:
            raise NotApplicableError("`output` is not declared")
        self.sandbox = sandbox
        self.rows = RowGenerator(declaration, bench.plugin_under_test.folder)
        self.dataset = declaration.dataset
        self.options = WriteOptions(task_id=bench.task_id())
        self._bench = bench
        self._used = 0

    def next_rows(self, count: int) -> list[Row]:
        """Return rows that were not used before."""
        self._used += count
        return self.rows.rows(self._used - count, count)

    @asynccontextmanager
    async def open_task(self, plugin: Plugin, **more: Any) -> AsyncIterator[SinkTask]:
        """Open the task, and send its schema."""
        async with open_sink(plugin, self.sandbox, replace(self.options, **more)) as task:
            applied = await task.send_schema(self.rows.schema, self.dataset, self.rows.keys)
            require(
                not applied.refused,
                f"its schema is refused: {format_diagnostics(applied.diagnostics)}",
            )
            yield task

    async def put(self, task: SinkTask, rows: Sequence[Row], options: PutOptions) -> None:
        """Put rows as one batch; all of them must be accepted."""
        results = await task.put([rows], self.rows.schema, options)
        require(len(results) == 1, f"{len(results)} answers to one batch")
        require(results[0].all_ok, f"rows were refused: {results[0].failed[:1]}")

    async def prepare_rows(self, task: SinkTask, txn_id: int, rows: Sequence[Row]) -> pb.Prepared:
        """Put rows into slot 0, and prepare them."""
        await self.put(task, rows, PutOptions(txn_id))
        return await task.prepare(txn_id, [(0, 0, len(rows))])

    async def write_transaction(self, task: SinkTask, txn_id: int, count: int = 3) -> list[Row]:
        """Write rows in a transaction: put, prepare, commit."""
        rows = self.next_rows(count)
        await self.prepare_rows(task, txn_id, rows)
        await task.commit(txn_id)
        return rows

    async def expect_rows(self, plugin: Plugin, expected: Sequence[Row], when: str) -> None:
        """Check that exactly the expected rows are visible.

        Raises:
            RuleBrokenError: other rows are visible.
        """
        visible = await read_output(self.sandbox, plugin)
        difference = output_difference(
            expected, visible, ordered=self._bench.declaration.ordered, keys=self.rows.keys
        )
        if difference:
            raise RuleBrokenError(f"{when}: {difference}")


@asynccontextmanager
async def sink_trial(bench: Bench) -> AsyncIterator[SinkTrial]:
    """Create a sandbox for the rows of a case."""
    async with bench.new_sandbox() as sandbox:
        yield SinkTrial(bench, sandbox)


async def read_output(sandbox: Sandbox, plugin: Plugin) -> list[Row]:
    """Return the rows that are visible now, by `output` of the declaration.

    Raises:
        NotApplicableError: there is no `output`.
    """
    match dict(sandbox.declaration.output):
        case {"command": [*words]}:
            return parse_json_lines(await sandbox.run([str(word) for word in words]), Decimal)
        case {"file": str(name)}:
            return _read_file(Path(sandbox.expand(name)))
        case {"source": str(name), "config": dict(config)}:
            return await _read_source(sandbox, plugin, name, config)
        case {}:
            raise NotApplicableError("`output` is not declared")
    raise ConfigError(
        "conformance.bad_declaration",
        "output is neither {command = […]} nor {file = …} nor {source = …, config = {…}}",
        config_path="connector.output",
        fix="Use one of these three forms to name the rows that the sink has written.",
    )


def output_difference(
    written: Sequence[Row], visible: Sequence[Row], *, ordered: bool, keys: Sequence[str]
) -> str:
    """Return in one line how the visible rows differ from the written ones; empty when equal."""
    if not ordered:
        written, visible = _sort_rows(written, keys), _sort_rows(visible, keys)
    if len(written) != len(visible):
        return f"{len(visible)} rows are visible, {len(written)} should be"
    for number, (one, other) in enumerate(zip(written, visible, strict=True)):
        for name, value in one.items():
            if not equal_values(value, other.get(name)):
                return (
                    f"row {number}, column {name}: {other.get(name)!r:.100} is visible, "
                    f"{value!r:.100} was written"
                )
    return ""


def _sort_rows(rows: Sequence[Row], keys: Sequence[str]) -> list[Row]:
    return sorted(rows, key=lambda row: [_sortable(row.get(key)) for key in keys])


def _sortable(value: Any) -> tuple[int, float, str]:
    if isinstance(value, int | float):
        return (0, value, "")
    return (1, 0.0, str(value))


def _read_file(file: Path) -> list[Row]:
    return parse_json_lines(file.read_text(encoding="utf-8"), Decimal) if file.exists() else []


async def _read_source(
    sandbox: Sandbox, plugin: Plugin, name: str, config: dict[str, str]
) -> list[Row]:
    source_sandbox = Sandbox(
        replace(sandbox.declaration, name=name, config=config, secrets={}),
        sandbox.work,
        sandbox.work,
    )
    source_sandbox.name = sandbox.name
    options = ReadOptions(task_id=f"seen-{source_sandbox.target().instance}")
    async with open_source(plugin, source_sandbox, options) as task:
        await task.read(1 << 60)
        return [one.row for one in task.trace.rows]
