"""Where a task is: in the log, inside a huge transaction, and in its snapshot. Pure.

    {"lsn": "0/16B3748"}                                   a valid offset: the log from there on
    {"lsn", "within": ["0/16B3800", 4096], "tables", "snapshot"}

`lsn` is the place behind the last transaction that was given out; `within` is the commit of a
transaction that was cut, and how many of its events were given; `tables` are the numbers of the
tables that are followed; `snapshot` is there while tables are still read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from penstock_connector import ConfigError
from penstock_databases.postgres_cdc.visibility import Seen

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
    """

    lsn: int = 0
    cut_commit: int = 0
    cut_events: int = 0


@dataclass(frozen=True, slots=True)
class Window:
    """Rows that were read from a table, while the log is not yet past that moment.

    Attributes:
        table: The table's number.
        low, high: Keys of the rows: above `low`, up to `high`. None: no bound.
        seen: The transactions that the reading saw.
        until: Place in the log behind all of these.
        again: The rows were given before.
    """

    table: int
    low: tuple[str, ...] | None
    high: tuple[str, ...] | None
    seen: Seen
    until: int
    again: bool = False


@dataclass(frozen=True, slots=True)
class Work:
    """The table that is being read.

    Attributes:
        table: Its number.
        again: Its rows were given before.
        key: Columns of its key, the order of reading; none when it is read in one go.
        last: Key of the last row that was given, as texts.
    """

    table: int
    again: bool = False
    key: tuple[str, ...] = ()
    last: tuple[str, ...] | None = None


@dataclass(slots=True)
class Plan:
    """What is still to be read of tables.

    Attributes:
        todo: Numbers of tables that were not begun, in their order; with True they were given
            before and are read again.
        work: The table in work.
        windows: What was read and the log is not past.
        pending: Transactions whose changes were left out, or came before rows of their table: the
            next rows must have seen them. A transaction can be in the log before readers see it.
    """

    todo: dict[int, bool] = field(default_factory=dict)
    work: Work | None = None
    windows: list[Window] = field(default_factory=list)
    pending: set[int] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.todo or self.work or self.windows)


def to_offset(position: Position, tables: Iterable[int], plan: Plan) -> dict[str, Any]:
    """Return the offset of a place."""
    offset: dict[str, Any] = {"lsn": lsn_text(position.lsn)}
    if position.cut_commit:
        offset["within"] = [lsn_text(position.cut_commit), position.cut_events]
    offset["tables"] = _packed(tables)
    if plan:
        offset["snapshot"] = _plan_offset(plan)
    return offset


def position_of(offset: Mapping[str, Any]) -> Position:
    """Return the place of an offset."""
    commit, events = offset.get("within") or (0, 0)
    return Position(lsn_of(offset.get("lsn", "")), lsn_of(commit), int(events))


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


def _plan_offset(plan: Plan) -> dict[str, Any]:
    work = plan.work
    return {
        "todo": [[table, again] for table, again in plan.todo.items()],
        "work": work and [work.table, work.again, list(work.key), _listed(work.last)],
        "windows": [
            [w.table, _listed(w.low), _listed(w.high), str(w.seen), lsn_text(w.until), w.again]
            for w in plan.windows
        ],
        "pending": sorted(plan.pending),
    }


def plan_of(offset: Mapping[str, Any]) -> Plan:
    """Return what an offset says is still to be read."""
    snapshot = offset.get("snapshot") or {}
    plan = Plan({int(table): bool(again) for table, again in snapshot.get("todo", ())})
    if work := snapshot.get("work"):
        table, again, key, last = work
        plan.work = Work(int(table), bool(again), tuple(key), _tupled(last))
    plan.windows = [
        Window(int(table), _tupled(low), _tupled(high), Seen.of(seen), lsn_of(until), bool(again))
        for table, low, high, seen, until, again in snapshot.get("windows", ())
    ]
    plan.pending = {int(xid) for xid in snapshot.get("pending", ())}
    return plan


def _listed(key: tuple[str, ...] | None) -> list[str] | None:
    return None if key is None else list(key)


def _tupled(key: Iterable[Any] | None) -> tuple[str, ...] | None:
    return None if key is None else tuple(map(str, key))
