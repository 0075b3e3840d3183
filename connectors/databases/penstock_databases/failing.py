"""What databases say, as errors that tell people what happened and what to do.

Messages of a server may quote values of rows; they are cut to one short line, and statements are
not part of them. Connection errors are tried again by the host; everything about rights and names
is the user's.
"""

from __future__ import annotations

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
    "constraint": (DataError, "A constraint of the table does not take these rows."),
    "value": (DataError, "A column cannot hold a value: widen it, or change the rows."),
    "too_large": (DataError, "Raise the server's `max_allowed_packet`, or send smaller rows."),
    "fenced": (FencedError, ""),
    "failed": (ConnectorError, "See the server's log; if the statement is wrong, it is a defect."),
}


def sql_error(kind: str, where: object, said: object) -> ConnectorError:
    """Return an error of a kind: `sql.<kind>`.

    Args:
        kind: One of the table above.
        where: Server, table or column, for people.
        said: What the driver said.
    """
    make, fix = _KINDS[kind]
    return make(f"sql.{kind}", f"{where}: {one_line(said)}", fix=fix)


def one_line(said: object) -> str:
    """Return a text as one line of bounded length, without control characters."""
    text = " ".join("".join(c if c.isprintable() else " " for c in str(said)).split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
