"""What a snapshot makes of changes in the log, many at once; see `cdc.progress`. Pure.

Keys that compare here as in the server are single integers. A place is exact on MariaDB only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock_connector import Op
from penstock_databases.cdc.progress import Progress, Window, Work
from penstock_databases.mysql_cdc.gathering import Changes, Table
from penstock_databases.mysql_cdc.position import Place
from penstock_databases.mysql_cdc.statements import TableName

WINDOWS_MOST = 64
"""Windows that may be open. More of them make every offset larger and every change slower to
settle; the snapshot waits for the log then."""


@dataclass(slots=True)
class TableProgress(Progress[TableName, Place]):
    """A snapshot beside the binary log."""

    def resumed(self) -> None:
        """Begin again after a crash: a table without a key is read from its first row on."""
        for work in list(self.work.values()):
            if work.begun and work.last is None:
                self.forget(work.table)
                self.add(
                    [work.table],
                    keep=work.keep,
                    condition=work.condition,
                    anew=True,
                    incremental=work.incremental,
                )

    def inexact(self, place: Place) -> None:
        """Take the windows to another server, where places are others: they end at this one."""
        self.windows = [
            Window(one.table, one.after, one.upto, place, exact=False) for one in self.windows
        ]
        for work in self.work.values():
            work.keep = work.keep or work.begun

    def settle(self, table: Table, changes: Changes) -> Changes:
        """Return what is to be given of changes."""
        name = table.database, table.name
        work, windows = self.work.get(name), self.windows_of(name)
        if work is None and not windows:
            return changes
        exact = all(one.exact for one in windows) and not (work and work.keep)
        drop, doubt = np.zeros((2, len(changes.ops)), np.bool_)
        if work and not work.begun and exact:
            drop[:] = True
        elif not exact or not _comparable(table):
            _doubted(work, windows, changes, drop, doubt, exact=exact)
        else:
            keys = _keys(changes.columns[table.layout.key[0]])
            if work and work.last is not None:
                drop |= keys > np.array(work.last[0], keys.dtype)
            for one in windows:
                drop |= _inside(one, keys) & (changes.numbers <= one.place.number)
        created = (changes.ops == Op.CREATE) | (changes.ops == Op.UPDATE)
        changes.ops[doubt & created] = Op.UPSERT
        return changes.kept(~drop) if drop.any() else changes


def _doubted(
    work: Work[TableName] | None,
    windows: list[Window[TableName, Place]],
    changes: Changes,
    drop: npt.NDArray[np.bool_],
    doubt: npt.NDArray[np.bool_],
    *,
    exact: bool,
) -> None:
    """Settle changes whose keys cannot be compared."""
    for one in windows:
        before = changes.numbers <= one.place.number
        if exact and one.after is None and one.upto is None:
            drop |= before  # the whole table: no key is needed
        else:
            doubt |= before
    if work:
        doubt[:] = True


def _comparable(table: Table) -> bool:
    key = table.layout.key
    if len(key) != 1:
        return False
    kind = table.layout.fields[key[0]].type
    return bool(pa.types.is_integer(kind) or kind == pa.decimal128(20, 0))


def _keys(column: pa.Array) -> npt.NDArray[np.int64] | npt.NDArray[np.uint64]:
    if pa.types.is_decimal(column.type):
        words = np.frombuffer(column.buffers()[1], np.uint64)
        first = column.offset * 2
        found: npt.NDArray[np.uint64] = words[first : first + len(column) * 2 : 2]
        return found
    numbers: npt.NDArray[np.int64] = column.to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers


def _inside(
    window: Window[TableName, Place], keys: npt.NDArray[np.int64] | npt.NDArray[np.uint64]
) -> npt.NDArray[np.bool_]:
    inside = np.ones(len(keys), np.bool_)
    if window.after is not None:
        inside &= keys > np.array(window.after[0], keys.dtype)
    if window.upto is not None:
        inside &= keys <= np.array(window.upto[0], keys.dtype)
    return inside
