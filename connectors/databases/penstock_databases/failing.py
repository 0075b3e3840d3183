"""What databases say, as errors that tell people what happened and what to do.

Messages of a server may quote values of rows; they are cut to one short line, and statements are
not part of them. Connection errors are tried again by the host; everything about rights and names
is the user's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock_connector import (
    AuthError,
    ConfigError,
    ConnectorError,
    DataError,
    FencedError,
    RetriableError,
    SchemaError,
)

_LONGEST: Final = 300
"""Characters of what a server said. Longer texts quote whole statements, with values in them."""


@dataclass(frozen=True, slots=True)
class BrokenRule:
    """What of a table a row breaks.

    Attributes:
        kind: `NOT NULL`, `unique key`, `foreign key`, `check constraint`, `type`, …
        name: Of the constraint; empty where it has none.
        columns: Of the constraint, as far as they are known.
    """

    kind: str
    name: str = ""
    columns: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.name:
            columns = ", ".join(map(repr, self.columns))
            return f"the {self.kind} of the column {columns}" if columns else f"its {self.kind}"
        return f"the {self.kind} {self.name!r}" + (
            f" ({', '.join(self.columns)})" if self.columns else ""
        )


class RefusedRowError(DataError):
    """A database does not take a row. `said`: the server's words; `rule`: what the row breaks."""

    said: str = ""
    rule: BrokenRule | None = None


_KINDS: Final[dict[str, tuple[type[ConnectorError], str]]] = {
    "unreachable": (RetriableError, "Is the server up, and the address right? It is tried again."),
    "lost": (RetriableError, "It is tried again from the last committed offset."),
    "busy": (RetriableError, "Another transaction was in the way; it is tried again."),
    "overloaded": (RetriableError, "It is tried again; look at the server's limits."),
    "read_only": (RetriableError, "The server takes no writes now; it is tried again."),
    "auth": (
        AuthError,
        "Correct `connection.user` and `connection.password` (or `database.user` and so on).",
    ),
    "denied": (AuthError, "Give the user the rights that the connector's page names."),
    "no_database": (ConfigError, "Correct the database in `connection.url`, or make it."),
    "no_table": (SchemaError, "Was it dropped or renamed? Correct the configuration."),
    "no_column": (SchemaError, "Was it dropped or renamed? Correct the configuration."),
    "constraint": (RefusedRowError, "A constraint of the table does not take these rows."),
    "value": (RefusedRowError, "A column cannot hold a value: widen it, or change the rows."),
    "too_large": (DataError, "Raise the server's `max_allowed_packet`, or send smaller rows."),
    "fenced": (FencedError, ""),
    "failed": (ConnectorError, "See the server's log; if the statement is wrong, it is a defect."),
}


def sql_error(
    kind: str, where: object, said: object, rule: BrokenRule | None = None
) -> ConnectorError:
    """Return an error of a kind: `sql.<kind>`.

    Args:
        kind: One of the table above.
        where: Server, table or column, for people.
        said: What the driver said.
        rule: What a row breaks.
    """
    make, fix = _KINDS[kind]
    error = make(f"sql.{kind}", f"{where}: {one_line(said)}", fix=fix)
    if isinstance(error, RefusedRowError):
        error.said, error.rule = one_line(said), rule
    return error


def one_line(said: object) -> str:
    """Return a text as one line of bounded length, without control characters."""
    text = " ".join("".join(c if c.isprintable() else " " for c in str(said)).split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
