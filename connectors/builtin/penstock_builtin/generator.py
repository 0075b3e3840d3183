"""`generator`: rows that are made up, for load, demonstrations, and a first look."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock_builtin.pacing import Pace
from penstock_connector import Batch, ConfigError, Partition, Source, key
from penstock_connector.reach import Reaching

_KINDS: Final = ("id", "ts", "name", "payload", "number")


@dataclass(frozen=True)
class GeneratorConfig(Reaching):
    """What to make, how much, how fast."""

    rows: int = key(0, doc="Rows in all, over all partitions; 0: no end.")
    rows_per_second: float = key(0.0, doc="Rows a second in all; 0: as fast as can be.")
    columns: tuple[str, ...] = key(
        ("id", "ts", "name", "payload:64"),
        doc="Columns, as `name` or `name:kind`, `name:kind:size`. Kinds: id (long), ts (time), "
        "name (text), payload (text of `size` characters), number (double).",
    )
    partitions: int = key(
        1,
        doc='Partitions `{"generator": n}`, each with its own sequence of ids and the '
        'offset `{"row": n}`.',
    )
    batch_rows: int = key(20_000, doc="Rows made at once.")
    dataset: str = key("", doc="Dataset of the rows. Empty: the connector's `topic`.")

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        for name, value in (("partitions", self.partitions), ("batch.rows", self.batch_rows)):
            if value < 1:
                raise ConfigError(
                    "config.invalid_value", f"{name!r} must be at least 1", config_path=name
                )
        self.parsed()

    def parsed(self) -> list[tuple[str, str, int]]:
        """Return the columns as name, kind, size."""
        return [_column(text) for text in self.columns]


def _column(text: str) -> tuple[str, str, int]:
    name, *rest = text.split(":")
    # `id` is a column id of kind id; `payload:64` one of kind payload; `key:id` is in full.
    kind = rest.pop(0) if rest and rest[0] in _KINDS else name
    size = rest.pop(0) if rest else "64"
    if kind not in _KINDS or rest or not size.isdigit():
        raise ConfigError(
            "config.invalid_value",
            f"column {text!r} is not one that can be made",
            fix=f"Write name:kind or name:kind:size; kinds are {', '.join(_KINDS)}.",
            config_path="columns",
        )
    return name, kind, int(size)


class Generator(Source[GeneratorConfig]):
    """Made-up rows.

    Rows follow from their number alone, so that they are the same when they are read again; only
    times are those of the moment.
    """

    name = "generator"
    title = "Made-up rows"
    bounded: ClassVar[bool] = True  # asked for `finished`, which says no without `rows`

    @classmethod
    def plan(
        cls, config: GeneratorConfig, max_tasks: int, known: Sequence[Partition]
    ) -> Sequence[Partition]:
        """Return as many partitions as are asked for."""
        bounded = config.rows > 0
        return [Partition({"generator": n}, bounded=bounded) for n in range(config.partitions)]

    def connect(self, partitions: Sequence[Partition]) -> None:
        """Go on after the last row that was committed."""
        self._next = {
            int(partition.key["generator"]): int((partition.offset or {}).get("row", 0))
            for partition in partitions
        }
        self._turns = deque(self._next)
        self._columns = self.config.parsed()
        self._base = pa.array(range(self.config.batch_rows), pa.int64())
        share = len(self._next) / self.config.partitions
        self._pace = Pace(self.config.rows_per_second * share)

    def read_batch(self) -> Batch | None:
        """Return the next rows of the partition whose turn it is."""
        for _ in range(len(self._turns)):
            self._turns.rotate(-1)
            number = self._turns[-1]
            count = self._pace.due(min(self.config.batch_rows, self._left(number)))
            if count:
                return self._batch(number, count)
        return None

    def wait(self, timeout: float) -> None:
        """Block until rows are due."""
        pause = self._pace.wait() if not self.finished() else timeout
        self._woken.wait(min(timeout, pause))
        self._woken.clear()

    def finished(self) -> bool:
        """Return whether all rows were given."""
        return self.config.rows > 0 and not any(map(self._left, self._next))

    def remaining(self) -> tuple[int, int]:
        """Return the rows that are left."""
        return -1, sum(map(self._left, self._next)) if self.config.rows else -1

    def _left(self, number: int) -> int:
        if not self.config.rows:
            return self.config.batch_rows
        share, more = divmod(self.config.rows, self.config.partitions)
        return max(share + (number < more) - self._next[number], 0)

    def _batch(self, number: int, count: int) -> Batch:
        ids = pc.add(self._base.slice(0, count), self._next[number])
        arrays = [make_column(kind, size, ids) for _, kind, size in self._columns]
        self._next[number] += count
        self._pace.gave(count)
        return Batch(
            rows=pa.RecordBatch.from_arrays(arrays, [name for name, _, _ in self._columns]),
            partition={"generator": number},
            offset={"row": self._next[number]},
            dataset=self.config.dataset,
        )


def make_column(kind: str, size: int, ids: pa.Array) -> pa.Array:
    """Return a column for rows with these numbers."""
    match kind:
        case "id":
            return ids
        case "ts":
            now: Any = pa.scalar(time.time_ns() // 1000, pa.timestamp("us", "UTC"))
            return pa.repeat(now, len(ids))
        case "name":
            return pc.binary_join_element_wise("name-", ids.cast(pa.string()), "")
        case "number":
            return pc.divide(ids.cast(pa.float64()), 7.0)
    return pa.repeat(pa.scalar("x" * size), len(ids))
