"""`snapshot.select.statement.overrides`: which rows of a table its reading gives. Pure.

A statement stands in the place of its table where chunks are read: `FROM (SELECT …) t`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from penstock_connector import ConfigError, ConnectorError, RetriableError

PATH: Final = "snapshot.select.statement.overrides"
_SELECT: Final = re.compile(r"(?:SELECT|WITH|\()\s?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SnapshotStatement:
    """What is read in place of a table.

    Attributes:
        table: The table, as `database.table` or `schema.table`.
        text: The statement, without a semicolon at its end.
    """

    table: str
    text: str

    @property
    def rows(self) -> str:
        """What stands behind FROM, for a driver that formats parameters."""
        return f"({self.text.replace('%', '%%')}\n) t"  # the line ends a comment at its end

    def explained(self, error: BaseException) -> BaseException:
        """Return the error of a reading that failed: what will not pass is the statement's."""
        if not isinstance(error, ConnectorError) or isinstance(error, RetriableError):
            return error
        path = f"{PATH}.{self.table}"
        return ConfigError(
            "cdc.snapshot_statement",
            f"{path!r} cannot be read in place of the table: {error.message}",
            fix=f"Correct it; it has to give all columns of {self.table}.",
            config_path=path,
        )


def read_statements(
    tables: Sequence[str], statements: Mapping[str, str]
) -> dict[str, SnapshotStatement]:
    """Return the statements by their tables.

    Args:
        tables: The tables that have one, as `database.table` or `schema.table`.
        statements: The statements by the rest of their keys: the names of tables.

    Raises:
        ConfigError: `config.missing`, `config.invalid_value`.
    """
    found = {}
    for table in tables:
        path = f"{PATH}.{table}"
        text = statements.get(table, "").strip().rstrip(";").rstrip()
        if not text:
            raise ConfigError(
                "config.missing",
                f"{PATH!r} names {table}, and {path!r} has no statement",
                fix=f"Set {path}, or remove {table} from the list.",
                config_path=path,
            )
        if not _SELECT.match(text):
            raise ConfigError(
                "config.invalid_value",
                f"{path!r}: expected a SELECT, found {text[:50]!r}",
                fix=f"Write a SELECT of all columns of {table}.",
                config_path=path,
            )
        found[table] = SnapshotStatement(table, text)
    for table in statements:
        if table not in found:
            raise ConfigError(
                "config.invalid_value",
                f"{PATH}.{table!s} has a statement, and {PATH!r} does not name {table!r}",
                fix=f"Set {PATH}={','.join([*tables, table])}.",
                config_path=PATH,
            )
    return found
