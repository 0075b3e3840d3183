"""`message.key.columns`: keys of rows in place of the primary keys of their tables. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from penstock_connector import ConfigError, Pattern

PATH: Final = "message.key.columns"


@dataclass(frozen=True, slots=True)
class MessageKeys:
    """The keys that are named, in their order: the first pattern that matches a table counts."""

    entries: tuple[tuple[Pattern, tuple[str, ...]], ...] = ()

    @classmethod
    def parse(cls, text: str, *, ignore_case: bool = False) -> MessageKeys:
        """Read `shop.orders:id,line;crm[.].*:uuid`.

        Raises:
            ConfigError: `config.invalid_value`, `config.bad_pattern`.
        """
        entries = []
        for entry in filter(None, (one.strip() for one in text.split(";"))):
            table, colon, columns = entry.rpartition(":")
            names = tuple(name.strip() for name in columns.split(","))
            if not colon or not table.strip() or not all(names) or len(set(names)) < len(names):
                raise ConfigError(
                    "config.invalid_value",
                    f"{PATH!r}: expected TABLE:COLUMN,COLUMN with each column once, "
                    f"found {entry[:100]!r}",
                    fix=f"Write it as in {PATH}=shop.orders:id,line;shop.customers:email.",
                    config_path=PATH,
                )
            entries.append((Pattern.compile(table.strip(), PATH, ignore_case=ignore_case), names))
        return cls(tuple(entries))

    def names(self, table: str) -> bool:
        """Return whether a key is named for a table, as `database.table` or `schema.table`."""
        return any(pattern.matches(table) for pattern, _ in self.entries)

    def key_of(self, table: str, columns: Sequence[str]) -> tuple[str, ...] | None:
        """Return the key of rows of a table, as `database.table` or `schema.table`; None: that of
        the table itself.

        Raises:
            ConfigError: `cdc.key_column`: the table has no such column.
        """
        for pattern, names in self.entries:
            if not pattern.matches(table):
                continue
            missing = [name for name in names if name not in columns]
            if missing:
                raise ConfigError(
                    "cdc.key_column",
                    f"{PATH!r} names {missing[0]!r} for {table}, which has the columns "
                    f"{_listed(columns)}",
                    fix=f"Correct the entry of {table} in `{PATH}`.",
                    config_path=PATH,
                )
            return names
        return None


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)[:500]
