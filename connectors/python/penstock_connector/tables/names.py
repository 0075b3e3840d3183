"""Names of databases, tables and columns: written into SQL so that they stay names.

A name can hold anything that the database allows, quotes and semicolons too: it is always quoted,
with the quote doubled inside. What a database would refuse or cut short is refused here, before
any statement is made. Statements are format text (`%s` is a value), so `%` is doubled, too. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock_connector import ConfigError

_TOPIC: Final = "${topic}"
_QUOTES: Final = ('"', "`")


@dataclass(frozen=True, slots=True)
class Naming:
    """How a kind of database writes names.

    Attributes:
        database: What people call it.
        quote: The character around a name.
        longest: Most characters of a name, or bytes of UTF-8 when `in_bytes`; 0: no limit.
        in_bytes: Whether the limit counts bytes.
        plane_0: Whether characters beyond U+FFFF are refused.
    """

    database: str
    quote: str
    longest: int = 0
    in_bytes: bool = False
    plane_0: bool = False

    def quoted(self, name: str) -> str:
        """Return a name as it stands in SQL.

        Raises:
            ConfigError: `sql.bad_name`: the database has no such names.
        """
        problem = self._problem(name)
        if problem:
            raise ConfigError(
                "sql.bad_name",
                f"{name[:80]!r} cannot be a name in {self.database}: {problem}",
                fix="Name it otherwise: a transform (ReplaceField, RegexRouter) can rename it.",
            )
        inside = name.replace(self.quote, self.quote * 2).replace("%", "%%")
        return f"{self.quote}{inside}{self.quote}"

    def dotted(self, *names: str) -> str:
        """Return a qualified name; empty parts are left out."""
        return ".".join(self.quoted(name) for name in names if name)

    def parts(self, text: str) -> tuple[str, ...]:
        """Split a dotted name that a person wrote; a quoted part may have dots.

        Raises:
            ConfigError: `sql.bad_name`: a quote is not closed, or a part is empty.
        """
        parts, rest = [], text
        while True:
            part, rest = self._part(rest, text)
            parts.append(part)
            if not rest:
                return tuple(parts)
            rest = rest[1:]

    def _part(self, rest: str, text: str) -> tuple[str, str]:
        quote = next((q for q in (self.quote, '"', "`") if rest.startswith(q)), "")
        if not quote:
            part, dot, after = rest.partition(".")
            if not part:
                raise _unreadable(text)
            return part, dot + after
        end = 1
        while (end := rest.find(quote, end)) > 0 and rest.startswith(quote * 2, end):
            end += 2
        after = rest[end + 1 :]
        if end < 0 or (after and not after.startswith(".")) or after == ".":
            raise _unreadable(text)
        return rest[1:end].replace(quote * 2, quote), after

    def _problem(self, name: str) -> str:
        size = len(name.encode("utf-8", "surrogatepass")) if self.in_bytes else len(name)
        unit = "bytes" if self.in_bytes else "characters"
        if not name:
            return "it is empty"
        if "\0" in name or any("\ud800" <= c <= "\udfff" for c in name):
            return "it has a character that names cannot have"
        if self.longest and size > self.longest:
            return f"it has {size} {unit}, and {self.longest} are the most"
        if self.plane_0 and (max(name) > "\uffff" or name.endswith(" ")):
            return "it has characters beyond U+FFFF, or ends with a space"
        return ""


def _unreadable(text: str) -> ConfigError:
    return ConfigError(
        "sql.bad_name",
        f"{text[:80]!r} is no name of a table",
        fix="Write `table` or `schema.table`; a part with a dot in it stands in quotes.",
    )


@dataclass(frozen=True, slots=True, order=True)
class TableId:
    """A table.

    Attributes:
        name: Its name.
        schema: PostgreSQL's schema; empty elsewhere.
        catalog: MySQL's database, SQLite's attached file; empty in PostgreSQL.
    """

    name: str
    schema: str = ""
    catalog: str = ""

    def sql(self, naming: Naming) -> str:
        """Return it as it stands in SQL."""
        return naming.dotted(self.catalog, self.schema, self.name)

    def __str__(self) -> str:
        return ".".join(part for part in (self.catalog, self.schema, self.name) if part)


def table_parts(pattern: str, topic: str, naming: Naming) -> list[str]:
    """Return the parts of a table's name, as `table.name.format` has it.

    A topic is a name and never text of SQL: quotes in it are part of the name. Its dots part schema
    and table, as in Kafka Connect, unless the format has it in quotes.
    """
    parts: list[str] = []
    for part in naming.parts(pattern):
        quoted = any(f"{quote}{part}{quote}" in pattern for quote in _QUOTES)
        filled = part.replace("${table}", topic.rpartition(".")[2])
        if _TOPIC in filled and not quoted:
            parts += filled.replace(_TOPIC, topic).split(".")
        else:
            parts.append(filled.replace(_TOPIC, topic))
    return parts
