"""The plugin that `plugins.py` measures: rows of 100 bytes from columns, from dicts; ticks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from penstock_connector import Batch, ConnectorError, Partition, Source, key, serve

NAME, PAYLOAD = "name-000000000000042", "0" * 64


@dataclass(frozen=True)
class RowsConfig:
    """Keys of all three."""

    limit: int = key(1 << 60, doc="Rows to give in all.")
    batch_rows: int = key(10_000, doc="Rows to give at once.")


class Columns(Source[RowsConfig]):
    """Rows as columns: (id, ts, name, payload)."""

    name = "columns"
    bounded = True

    def connect(self, partitions: Sequence[Partition]) -> None:
        """Go on where the last committed offset was."""
        self.next = int((partitions[0].offset or {"next": 0})["next"])

    def read_batch(self) -> Batch | None:
        """Give the next rows."""
        first, end = self.next, min(self.next + self.config.batch_rows, self.config.limit)
        if first == end:
            return None
        self.next = end
        return Batch(self.rows(first, end), offset={"next": end}, dataset="rows")

    def finished(self) -> bool:
        """Tell that the limit was reached."""
        return self.next >= self.config.limit

    def rows(self, first: int, end: int) -> Any:
        """Return rows by their numbers."""
        ids, texts = np.arange(first, end), [one.slice(0, end - first) for one in self._texts]
        return pa.record_batch([ids, ids, *texts], ["id", "ts", "name", "payload"])

    @cached_property
    def _texts(self) -> list[pa.Array]:
        return [pa.array([text] * self.config.batch_rows) for text in (NAME, PAYLOAD)]


class Dicts(Columns):
    """The same rows as dicts."""

    name = "dicts"

    def rows(self, first: int, end: int) -> Any:
        """Return rows by their numbers."""
        return [{"id": n, "ts": n, "name": NAME, "payload": PAYLOAD} for n in range(first, end)]


class Checked(Columns):
    """The same rows, of a configuration that takes a moment to check."""

    name = "checked"
    _TAKES = 0.01

    @classmethod
    def validate(cls, config: RowsConfig) -> list[ConnectorError]:
        """Find nothing, after a moment."""
        time.sleep(cls._TAKES)
        return []


class Ticks(Columns):
    """A row a moment, with the time at which it was made, without an end."""

    name = "ticks"
    _EVERY = 0.01

    def read_batch(self) -> Batch | None:
        """Give the next row when it is time."""
        time.sleep(self._EVERY)
        self.next += 1
        row = {"id": self.next - 1, "at": time.time()}
        return Batch([row], offset={"next": self.next}, dataset="ticks")


if __name__ == "__main__":
    serve(Checked, Columns, Dicts, Ticks)
