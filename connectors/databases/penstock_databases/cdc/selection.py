"""Include and exclude lists: which tables are meant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from penstock_connector import Pattern

Lists: TypeAlias = Mapping[str, Sequence[str]]
"""Patterns by the keys of the configuration: `table.include.list`."""


@dataclass(frozen=True, slots=True)
class TableFilter:
    """Which tables are meant: those of some databases or schemas, by their names.

    Attributes:
        include, exclude: Patterns of the names of databases or schemas; no `include`: all.
        tables, not_tables: The same of `database.table` or `schema.table`.
        system: Databases or schemas of the server itself, which are never meant.
        ignore_case: Whether names are compared without their case.
    """

    include: Sequence[Pattern]
    exclude: Sequence[Pattern]
    tables: Sequence[Pattern]
    not_tables: Sequence[Pattern]
    system: frozenset[str]
    ignore_case: bool

    @classmethod
    def of(
        cls, lists: Lists, group: str, system: frozenset[str], *, ignore_case: bool = False
    ) -> TableFilter:
        """Return the filter of lists; `group` is `database` or `schema`.

        Raises:
            ConfigError: a pattern is no regular expression.
        """

        def patterns(key: str) -> tuple[Pattern, ...]:
            return compiled_list(key, lists.get(key, ()), ignore_case=ignore_case)

        return cls(
            patterns(f"{group}.include.list"),
            patterns(f"{group}.exclude.list"),
            patterns("table.include.list"),
            patterns("table.exclude.list"),
            system,
            ignore_case,
        )

    def includes(self, group: str, table: str) -> bool:
        """Return whether a table of a database or schema is meant.

        Raises:
            ConfigError: `config.slow_pattern`.
        """
        name = f"{group}.{table}"
        return (
            (group.lower() if self.ignore_case else group) not in self.system
            and (not self.include or _any(self.include, group))
            and not _any(self.exclude, group)
            and (not self.tables or _any(self.tables, name))
            and not _any(self.not_tables, name)
        )


def compiled_list(
    path: str, patterns: Sequence[str], *, ignore_case: bool = False
) -> tuple[Pattern, ...]:
    """Return the patterns of a key."""
    return tuple(Pattern.compile(one, path, ignore_case=ignore_case) for one in patterns)


def _any(patterns: Sequence[Pattern], name: str) -> bool:
    return any(pattern.matches(name) for pattern in patterns)
