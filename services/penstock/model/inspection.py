"""Rows shown to users: inspected rows of a running task, and previews of a transform chain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final, TypeAlias

from penstock.model.errors import Diagnostic

MAX_INSPECTED_ROWS: Final = 10_000
MAX_ROW_BYTES: Final = 64 << 10
MAX_INSPECT_S: Final = 3600.0
"""Bounds of one inspection (invariant 12): each row passes through the driver."""


class RowStage(IntEnum):
    """Where rows are inspected. Numbers equal penstock.api.worker.v1.RowStage."""

    UNSPECIFIED = 0
    READ = 1
    TRANSFORMED = 2


Stage: TypeAlias = RowStage | str
"""Where rows are inspected; a text: behind the transform of this name."""

STAGES: Final = (RowStage.READ, RowStage.TRANSFORMED)
"""The stages of every chain, whatever its transforms."""

_TRANSFORMS: Final = "transforms."


def parse_stage(text: str) -> Stage:
    """Parse a stage: `read`, `transformed`, or the alias of a transform. The prefix `transforms.`
    is optional, and required for an alias that is `read` or `transformed`.
    """
    known = {stage.name.lower(): stage for stage in STAGES}
    return known.get(text, text.removeprefix(_TRANSFORMS) or text)


def list_stage_names(transforms: Sequence[str]) -> list[str]:
    """Return the valid names of stages for `parse_stage`, in the order in which rows pass."""
    first, last = (stage.name.lower() for stage in STAGES)
    behind = (one if parse_stage(one) == one else f"{_TRANSFORMS}{one}" for one in transforms)
    return [first, *behind, last]


@dataclass(frozen=True, slots=True)
class InspectRules:
    """What to inspect. The inspection ends after `rows` rows or `seconds` seconds."""

    stage: Stage = RowStage.TRANSFORMED
    rows: int = 100
    row_bytes: int = 4096
    seconds: float = 60.0

    def within_limits(self) -> InspectRules:
        """Return the rules with defaults for unset values, each value within its bound."""
        default = InspectRules()
        return InspectRules(
            self.stage or default.stage,
            min(self.rows or default.rows, MAX_INSPECTED_ROWS),
            min(self.row_bytes or default.row_bytes, MAX_ROW_BYTES),
            min(self.seconds or default.seconds, MAX_INSPECT_S),
        )


@dataclass(frozen=True, slots=True)
class InspectedRow:
    """One row: its columns as JSON, and where it comes from.

    `topic` is empty where rows have no dataset before they are routed. `offset` is the source's
    offset as text, or else the row's number in the sample. `ts_us` is its time in microseconds
    since the epoch, None when it has none. `cut`: the JSON is truncated.
    """

    topic: str
    partition: str
    offset: str
    ts_us: int | None
    json: str
    cut: bool = False

    def truncate(self, max_bytes: int) -> InspectedRow:
        """Return the row with its JSON truncated to `max_bytes` bytes."""
        text, cut = truncate_text(self.json, max_bytes)
        return self if not cut else replace(self, json=text, cut=True)


@dataclass(frozen=True, slots=True)
class InspectedRows:
    """Inspected rows. `missed` is the number of rows before them that were not shown."""

    rows: tuple[InspectedRow, ...]
    missed: int = 0


def truncate_text(text: str, max_bytes: int) -> tuple[str, bool]:
    """Return at most `max_bytes` bytes of a text, and whether it was truncated."""
    data = text.encode()
    if len(data) <= max_bytes:
        return text, False
    return data[:max_bytes].decode(errors="ignore"), True


MAX_PREVIEW_ROWS: Final = 1_000
MAX_PREVIEW_BYTES: Final = 256 << 10
"""Bounds of the rows of one preview (invariant 12): they are part of the ticket of a job."""

MAX_UNREAD_REASONS: Final = 20
"""Rows that the source could not read whose reasons a preview has."""


@dataclass(frozen=True, slots=True)
class PreviewRequest:
    """Rows to pass through a connector's transforms before it runs: JSON objects of one dataset.

    `columns` has the types of columns whose values do not show them, in the words of `CAST`. Rows
    may lack columns. With `sample`, that many rows are read from the source instead.
    """

    rows: tuple[str, ...]
    dataset: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    sample: int = 0


@dataclass(frozen=True, slots=True)
class PreviewResult:
    """The rows behind the transforms, as JSON in the form of inspected rows, the dataset that they
    would be written to, and the input rows that failed (counted from 1) with the reason.

    `unread_count` rows were left out because the source could not read them; `unread` has the
    reasons of the first, at most `MAX_UNREAD_REASONS`.
    """

    rows: tuple[str, ...]
    dataset: str
    failed: tuple[tuple[int, Diagnostic], ...] = ()
    unread_count: int = 0
    unread: tuple[Diagnostic, ...] = ()
