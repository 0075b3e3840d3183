"""What a sink made visible: asked of a command, a file, or a source of the same plugin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from penstock.conformance.process import Plugin
from penstock.conformance.reading import Order, reading
from penstock.conformance.rows import Row, read_lines, same
from penstock.conformance.verdict import NotApplicableError
from penstock.conformance.world import World
from penstock.model.errors import ConfigError


async def seen(world: World, plugin: Plugin) -> list[Row]:
    """Return the rows that a reader finds now.

    Raises:
        NotApplicableError: `output` does not say how.
    """
    match dict(world.declared.output):
        case {"command": [*words]}:
            return read_lines(await world.run([str(word) for word in words]), Decimal)
        case {"file": str(name)}:
            return _of_file(Path(world.fill(name)))
        case {"source": str(name), "config": dict(config)}:
            return await _of_source(world, plugin, name, config)
        case {}:
            raise NotApplicableError("`output` does not say where rows are seen")
    raise ConfigError(
        "conformance.bad_declaration",
        "output is neither {command = […]} nor {file = …} nor {source = …, config = {…}}",
        config_path="connector.output",
        fix="Say in one of these three ways where the rows of the sink are seen.",
    )


def compare(
    wanted: Sequence[Row], found: Sequence[Row], *, ordered: bool, keys: Sequence[str]
) -> str:
    """Say in one line how what is seen differs from what was written; empty when it does not."""
    if not ordered:
        wanted, found = _by(wanted, keys), _by(found, keys)
    if len(wanted) != len(found):
        return f"{len(found)} rows are visible, {len(wanted)} should be"
    for number, (one, other) in enumerate(zip(wanted, found, strict=True)):
        for name, value in one.items():
            if not same(value, other.get(name)):
                return (
                    f"row {number}, column {name}: {other.get(name)!r:.100} is visible, "
                    f"{value!r:.100} was written"
                )
    return ""


def _by(rows: Sequence[Row], keys: Sequence[str]) -> list[Row]:
    return sorted(rows, key=lambda row: [_sortable(row.get(key)) for key in keys])


def _sortable(value: Any) -> tuple[int, float, str]:
    if isinstance(value, int | float):
        return (0, value, "")
    return (1, 0.0, str(value))


def _of_file(place: Path) -> list[Row]:
    return read_lines(place.read_text(encoding="utf-8"), Decimal) if place.exists() else []


async def _of_source(world: World, plugin: Plugin, name: str, config: dict[str, str]) -> list[Row]:
    shown = World(
        replace(world.declared, name=name, config=config, secrets={}), world.work, world.work
    )
    shown.name = world.name
    order = Order(task_id=f"seen-{shown.target().instance}")
    async with reading(plugin, shown, order) as task:
        await task.read(1 << 60)
        return [one.row for one in task.trace.rows]
