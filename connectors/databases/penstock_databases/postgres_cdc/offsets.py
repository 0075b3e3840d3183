"""Where a task is: in the log, inside a huge transaction, and in its snapshot. Pure.

    {"lsn": "0/16B3748"}                                   a valid offset: the log from there on
    {"lsn", "within": ["0/16B3800", 4096], "tables", "snapshot"}

`lsn` is the place behind the last transaction that was given out; `within` is the commit of a
transaction that was cut, and how many of its events were given, and `counted`, where changes are
counted, how many of each table; `tables` are the numbers of the
tables that are followed; `signals` is how far channels of signals were read; `snapshot` is there
while tables are still read:

    {"todo": [[16384, false]],                  tables that are not begun; true: given before;
                                                and a condition, where only some rows are read
     "paused": true,                            no chunk is begun
     "started": true,                           rows of it were given
     "incremental": [16384],                    tables that a signal asked for
     "work": [16390, false, ["id"], ["41"]],    one that is: by which key, and how far; or several
     "windows": [[16390, null, ["41"], "735:735:", "0/16B3748", false]], "pending": [736]}
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock_connector import ConfigError
from penstock_databases.cdc.progress import Key, Window, Work
from penstock_databases.postgres_cdc.progress import Moment, Seen, TableProgress

_LSN: Final = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")


def lsn_text(lsn: int) -> str:
    """Return a place in the log as PostgreSQL writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def lsn_of(text: object) -> int:
    """Return the number of a place; numbers stay what they are."""
    if isinstance(text, int):
        return text
    match = _LSN.fullmatch(str(text).strip())
    if match is None:
        raise ConfigError(
            "cdc.bad_offset",
            f"{str(text)[:40]!r} is no place in the log",
            fix='Write it as PostgreSQL does, for instance {"lsn": "0/16B3748"}.',
        )
    return int(match[1], 16) << 32 | int(match[2], 16)


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the log.

    Attributes:
        lsn: Behind the last transaction that was given out.
        cut_commit: Commit of the transaction after it that was given in part; 0: none.
        cut_events: How many of its events were given.
        cut_counts: How many changes of it were given of each table, where they are counted.
    """

    lsn: int = 0
    cut_commit: int = 0
    cut_events: int = 0
    cut_counts: tuple[tuple[str, int], ...] = ()


def to_offset(position: Position, tables: Iterable[int], progress: TableProgress) -> dict[str, Any]:
    """Return the offset of a place."""
    offset: dict[str, Any] = {"lsn": lsn_text(position.lsn)}
    if position.cut_commit:
        offset["within"] = [lsn_text(position.cut_commit), position.cut_events]
        if position.cut_counts:
            offset["counted"] = dict(position.cut_counts)
    offset["tables"] = _packed(tables)
    if progress.signals:
        offset["signals"] = dict(progress.signals)
    if progress.running:
        offset["snapshot"] = _progress_offset(progress)
    return offset


def position_of(offset: Mapping[str, Any]) -> Position:
    """Return the place of an offset."""
    commit, events = offset.get("within") or (0, 0)
    counted = sorted((offset.get("counted") or {}).items())
    counts = tuple((str(table), int(count)) for table, count in counted)
    return Position(lsn_of(offset.get("lsn", "")), lsn_of(commit), int(events), counts)


def tables_of(offset: Mapping[str, Any]) -> frozenset[int] | None:
    """Return the tables that were followed; None when the offset does not tell."""
    packed = offset.get("tables")
    if packed is None:
        return None
    tables, last = [], 0
    for step in str(packed).split(","):
        if step:
            last += int(step)
            tables.append(last)
    return frozenset(tables)


def _packed(tables: Iterable[int]) -> str:
    """Return numbers as steps from one to the next: there may be thousands, in every offset."""
    steps, last = [], 0
    for table in sorted(tables):
        steps.append(str(table - last))
        last = table
    return ",".join(steps)


def _progress_offset(progress: TableProgress) -> dict[str, Any]:
    begun = [
        [work.table, work.keep, list(work.columns), _listed(work.last), *_condition(work)]
        for work in progress.work.values()
        if work.begun
    ]
    found: dict[str, Any] = {
        "todo": [
            [work.table, work.keep, *_condition(work)]
            for work in progress.work.values()
            if not work.begun
        ],
        "work": begun[0] if len(begun) == 1 else begun or None,
        "windows": [
            [w.table, _listed(w.after), _listed(w.upto), str(w.place.seen),
             lsn_text(w.place.number), not w.exact]
            for w in progress.windows
        ],
        "pending": sorted(progress.pending),
    }  # fmt: skip
    for name in ("paused", "started"):
        if getattr(progress, name):
            found[name] = True
    incremental = [work.table for work in progress.work.values() if work.incremental]
    return found | {"incremental": incremental} if incremental else found


def _condition(work: Work[int]) -> list[str]:
    return [work.condition] if work.condition else []


def progress_of(offset: Mapping[str, Any]) -> TableProgress:
    """Return what an offset says is still to be read."""
    snapshot = offset.get("snapshot") or {}
    progress = TableProgress()
    progress.windows = [
        Window(
            int(table),
            _tupled(after),
            _tupled(upto),
            Moment(Seen.of(seen), lsn_of(until)),
            exact=not again,
        )
        for table, after, upto, seen, until, again in snapshot.get("windows", ())
    ]
    begun = snapshot.get("work") or []
    for table, again, key, last, *condition in (
        begun if not begun or isinstance(begun[0], list) else [begun]
    ):
        progress.work[int(table)] = Work(
            int(table),
            _tupled(last),
            begun=last is not None or bool(progress.windows_of(int(table))),
            keep=bool(again),
            columns=tuple(key),
            condition="".join(condition),
        )
    for table, again, *condition in snapshot.get("todo", ()):
        progress.add([int(table)], keep=bool(again), condition="".join(condition))
    for table in snapshot.get("incremental", ()):
        progress.work[int(table)].incremental = True
    progress.paused = bool(snapshot.get("paused"))
    progress.started = bool(snapshot.get("started"))
    progress.signals = dict(offset.get("signals") or {})
    progress.pending = {int(xid) for xid in snapshot.get("pending", ())}
    return progress


def _listed(key: Key | None) -> list[str] | None:
    return None if key is None else list(key)


def _tupled(key: Iterable[Any] | None) -> Key | None:
    return None if key is None else tuple(map(str, key))
