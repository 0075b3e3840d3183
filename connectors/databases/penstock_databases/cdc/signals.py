"""Signals in Debezium's form: rows with `id`, `type` and `data`, which ask for tables to be read.

Source: Debezium's documentation, "Sending signals to a Debezium connector".
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock_connector import ConfigError, Op, Pattern
from penstock_databases.cdc.progress import P, Progress, T

SNAPSHOT: Final = "execute-snapshot"
STOP: Final = "stop-snapshot"
PAUSE: Final = "pause-snapshot"
RESUME: Final = "resume-snapshot"
LOG: Final = "log"
_TYPES: Final = (SNAPSHOT, STOP, PAUSE, RESUME, LOG)

_NEVER: Final[Mapping[str, str]] = {
    "set-binlog-position": "Set its offset: penstock offsets set.",
}
"""Signals of Debezium that are not obeyed, and what does the same."""

_KINDS: Final = ("incremental", "blocking")
"""Of `execute-snapshot`. Both read beside the log here: that the log waits is not needed."""

_LONGEST: Final = 1_000
"""Characters of a message."""

_NAMES_MOST: Final = 10
"""Names of tables in a line of the log."""

_QUOTED: Final = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")
_UNSAFE: Final = re.compile(r"[;\\$'\"`\0]|--|/\*|#")
"""What could end a condition, or hide its end, outside of quotes. `;`, `$` and a backslash are not
taken inside of quotes either: servers read them in several ways."""


@dataclass(frozen=True, slots=True)
class Signal:
    """What a row asks for.

    Attributes:
        type: One of `SNAPSHOT`, `STOP`, `PAUSE`, `RESUME`, `LOG`.
        tables: The tables that are meant; None: all.
        conditions: Patterns of tables, and the SQL that rows meet that are read of them.
        message: What is to be logged.
    """

    type: str
    tables: Sequence[Pattern] | None = None
    conditions: Sequence[tuple[Pattern, str]] = ()
    message: str = ""

    def means(self, table: str) -> bool:
        """Return whether a table, as `database.table` or `schema.table`, is meant."""
        return self.tables is None or any(one.matches(table) for one in self.tables)

    def condition_of(self, table: str) -> str:
        """Return the SQL that rows meet that are read of a table; empty: all are."""
        return next((text for one, text in self.conditions if one.matches(table)), "")


def new_signals(rows: Iterable[Mapping[str, Any]]) -> list[Signal | ConfigError]:
    """Return what changes of the table of signals ask for: its new rows; or why it cannot be."""
    found: list[Signal | ConfigError] = []
    for row in rows:
        if row["__op"] in {Op.CREATE, Op.UPSERT}:
            try:
                found.append(read_signal(row))
            except ConfigError as error:
                found.append(error)
    return found


def obey_signal(
    signal: Signal,
    progress: Progress[T, P],
    tables: Mapping[T, str],
    add: Callable[[T, str], None],
) -> str:
    """Do what a signal asks for; returns what was done, for the log.

    Args:
        signal: The signal.
        progress: What is read now.
        tables: The tables that are followed, and their full names.
        add: Plans to read a table, of the rows that meet a condition.
    """
    if signal.type == LOG:
        return signal.message
    if signal.type in {PAUSE, RESUME}:
        if not progress.work:
            return f"{signal.type}: no table is being read"
        progress.paused = signal.type == PAUSE
        return f"{signal.type}: {len(progress.work)} tables are left to read"
    meant = [table for table, name in tables.items() if signal.means(name)]
    if signal.type == STOP:
        meant = [table for table in meant if table in progress.work]
        for table in meant:
            progress.forget(table)
    else:
        for table in meant:
            add(table, signal.condition_of(tables[table]))
    done = "not read any further" if signal.type == STOP else "read again"
    return f"these tables are {done}: {_listed([tables[table] for table in meant])}"


def read_signal(row: Mapping[str, Any]) -> Signal:
    """Return what a row of the table of signals asks for.

    Raises:
        ConfigError: `cdc.signal`: nothing that can be done.
    """
    kind, data = str(row.get("type") or ""), _data(row)
    if kind == SNAPSHOT:
        if data.get("surrogate-key"):
            raise _refused(row, "`surrogate-key` is not in force", "Leave it out.")
        how = str(data.get("type") or _KINDS[0])
        if how.lower() not in _KINDS:
            raise _refused(row, f"its `type` is {how[:50]!r}", f"Write {' or '.join(_KINDS)}.")
        return Signal(SNAPSHOT, _tables(row, data) or (), _conditions(row, data))
    if kind == STOP:
        return Signal(STOP, _tables(row, data))
    if kind in {PAUSE, RESUME}:
        return Signal(kind)
    if kind == LOG:
        text = " ".join(str(data.get("message", "")).split())  # one line, whatever it has
        return Signal(LOG, message=text[:_LONGEST])
    fix = _NEVER.get(kind, f"The types are {', '.join(_TYPES)}.")
    raise _refused(row, f"the type {kind[:50]!r} is not supported", fix)


def _conditions(row: Mapping[str, Any], data: Mapping[str, Any]) -> list[tuple[Pattern, str]]:
    """Return the conditions by tables; `additional-condition`, of Debezium 2, is of all tables."""
    conditions = data.get("additional-conditions") or []
    if not isinstance(conditions, list):
        conditions = [None]
    if old := data.get("additional-condition"):
        conditions = [*conditions, {"data-collection": ".*", "filter": old}]
    found = []
    for one in conditions:
        names = one if isinstance(one, dict) else {}
        table, text = names.get("data-collection"), names.get("filter")
        if not isinstance(table, str) or not isinstance(text, str) or not text.strip():
            raise _refused(
                row,
                "a condition has another form",
                'Write "additional-conditions": [{"data-collection": "shop.orders", '
                '"filter": "id > 7"}].',
            )
        if not is_condition(text):
            raise _refused(
                row,
                "the filter is not one condition",
                "Write SQL with balanced parentheses, and without `;`, `$`, backslashes and "
                "comments.",
            )
        found.append((Pattern.compile(table, "additional-conditions"), text.strip()))
    return found


def is_condition(text: str) -> bool:
    """Return whether a text stands as one condition in a statement: it does not end before its
    end. Who may write signals may not write statements.
    """
    quoted = "".join(_QUOTED.findall(text))
    plain = _QUOTED.sub(" ", text)
    if _UNSAFE.search(plain) or any(sign in quoted for sign in ";$\\\0"):
        return False
    depth = 0
    for sign in plain:
        depth += (sign == "(") - (sign == ")")
        if depth < 0:
            return False
    return not depth


def _data(row: Mapping[str, Any]) -> Mapping[str, Any]:
    given = row.get("data")
    if given is None or given == "":
        return {}
    try:  # it is an object itself where the whole signal is JSON
        data = given if isinstance(given, dict) else json.loads(str(given))
    except ValueError:
        data = None
    if not isinstance(data, dict):
        raise _refused(row, "`data` is not a JSON object", 'Write {"data-collections": [...]}.')
    return data


def _tables(row: Mapping[str, Any], data: Mapping[str, Any]) -> list[Pattern] | None:
    names = data.get("data-collections")
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise _refused(row, "`data-collections` is not a list of names", 'Write ["shop.orders"].')
    return [Pattern.compile(name, "data-collections") for name in names]


def _refused(row: Mapping[str, Any], why: str, fix: str) -> ConfigError:
    id_ = str(row.get("id"))[:50]
    return ConfigError("cdc.signal", f"signal {id_!r} is not obeyed: {why}", fix=fix)


def _listed(names: Sequence[str]) -> str:
    """Return names of tables; not all where they are many."""
    more = len(names) - _NAMES_MOST
    return ", ".join(names[:_NAMES_MOST]) + (f" and {more} more" if more > 0 else "") or "none"
