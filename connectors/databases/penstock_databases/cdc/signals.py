"""Signals in Debezium's form: rows with `id`, `type` and `data`, which ask for tables to be read.

Source: Debezium's documentation, "Sending signals to a Debezium connector".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock_connector import ConfigError, Pattern

SNAPSHOT: Final = "execute-snapshot"
STOP: Final = "stop-snapshot"
LOG: Final = "log"

_NEVER: Final[Mapping[str, str]] = {
    "pause-snapshot": "Pause the connector instead: it goes on where it was.",
    "resume-snapshot": "Resume the connector.",
    "set-binlog-position": "Set its offset: penstock offsets set.",
}
"""Signals of Debezium that are not obeyed, and what does the same."""

_NOT_OBEYED: Final = ("additional-conditions", "additional-condition", "surrogate-key")
"""Members of `data` without which other rows would come than were asked for."""

_LONGEST: Final = 1_000
"""Characters of a message."""


@dataclass(frozen=True, slots=True)
class Signal:
    """What a row asks for.

    Attributes:
        type: `SNAPSHOT`, `STOP` or `LOG`.
        tables: The tables that are meant; None: all.
        message: What is to be logged.
    """

    type: str
    tables: Sequence[Pattern] | None = None
    message: str = ""

    def means(self, table: str) -> bool:
        """Return whether a table, as `database.table` or `schema.table`, is meant."""
        return self.tables is None or any(one.matches(table) for one in self.tables)


def read_signal(row: Mapping[str, Any]) -> Signal:
    """Return what a row of the table of signals asks for.

    Raises:
        ConfigError: `cdc.signal`: nothing that can be done.
    """
    kind, data = str(row.get("type") or ""), _data(row)
    if kind == SNAPSHOT:
        if member := next((one for one in _NOT_OBEYED if data.get(one)), ""):
            raise _refused(row, f"`{member}` is not in force", "Leave it out.")
        return Signal(SNAPSHOT, _tables(row, data) or ())
    if kind == STOP:
        return Signal(STOP, _tables(row, data))
    if kind == LOG:
        text = " ".join(str(data.get("message", "")).split())  # one line, whatever it has
        return Signal(LOG, message=text[:_LONGEST])
    fix = _NEVER.get(kind, f"The types are {SNAPSHOT}, {STOP}, {LOG}.")
    raise _refused(row, f"the type {kind[:50]!r} is not supported", fix)


def _data(row: Mapping[str, Any]) -> Mapping[str, Any]:
    text = row.get("data")
    if text in {None, ""}:
        return {}
    try:
        data = json.loads(str(text))
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
