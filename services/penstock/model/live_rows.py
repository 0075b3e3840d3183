"""Looking at live rows: what a person asks for, and what is shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final, TypeAlias

MOST_ROWS: Final = 10_000
MOST_ROW_BYTES: Final = 64 << 10
MOST_SECONDS: Final = 3600.0
"""Bounds of one look (invariant 12): nobody reads more, and each row passes the driver."""


class RowStage(IntEnum):
    """Where rows are looked at. Numbers equal penstock.api.worker.v1.RowStage."""

    UNSPECIFIED = 0
    READ = 1
    TRANSFORMED = 2


Stage: TypeAlias = RowStage | str
"""Where rows are looked at; a text: behind the transform of this name."""

STAGES: Final = (RowStage.READ, RowStage.TRANSFORMED)
"""What every chain has, whatever its transforms."""

_TRANSFORMS: Final = "transforms."


def read_stage(text: str) -> Stage:
    """Return the stage that a person names: `read`, `transformed`, or a transform, which may have
    `transforms.` before its name, and has to where it is called as one of the two.
    """
    known = {stage.name.lower(): stage for stage in STAGES}
    return known.get(text, text.removeprefix(_TRANSFORMS) or text)


def stage_names(transforms: Sequence[str]) -> list[str]:
    """Return what a person may name, in the order in which rows pass."""
    first, last = (stage.name.lower() for stage in STAGES)
    behind = (one if read_stage(one) == one else f"{_TRANSFORMS}{one}" for one in transforms)
    return [first, *behind, last]


@dataclass(frozen=True, slots=True)
class LookRules:
    """What to show. The look ends after so many rows, or seconds."""

    stage: Stage = RowStage.TRANSFORMED
    rows: int = 100
    row_bytes: int = 4096
    seconds: float = 60.0

    def bounded(self) -> LookRules:
        """Return the rules with unset values as they are by default, and none above its bound."""
        usual = LookRules()
        return LookRules(
            self.stage or usual.stage,
            min(self.rows or usual.rows, MOST_ROWS),
            min(self.row_bytes or usual.row_bytes, MOST_ROW_BYTES),
            min(self.seconds or usual.seconds, MOST_SECONDS),
        )


@dataclass(frozen=True, slots=True)
class LookedRow:
    """One row: its columns as JSON, and where it comes from.

    `topic` is empty where the rows name none before they are routed. `offset` is the source's own,
    as text; without one, the row's number in the sample. `ts_us` is its time in microseconds since
    the epoch, None when it has none. `cut`: the JSON is only the beginning of it.
    """

    topic: str
    partition: str
    offset: str
    ts_us: int | None
    json: str
    cut: bool = False

    def fitted(self, most: int) -> LookedRow:
        """Return the row with at most so many bytes of JSON."""
        text, cut = fitted(self.json, most)
        return self if not cut else replace(self, json=text, cut=True)


@dataclass(frozen=True, slots=True)
class Looked:
    """Rows that are shown, and how many passed since the rows before without being shown."""

    rows: tuple[LookedRow, ...]
    missed: int = 0


def fitted(text: str, most: int) -> tuple[str, bool]:
    """Return at most so many bytes of a text, and whether something is missing."""
    data = text.encode()
    if len(data) <= most:
        return text, False
    return data[:most].decode(errors="ignore"), True
