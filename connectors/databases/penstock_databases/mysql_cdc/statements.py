"""Statements in the log: what they mean for rows. Pure.

In a log of rows, statements begin and end transactions and change tables. No SQL is understood
here beyond its first words and the names of the tables behind them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

TableName = tuple[str, str]
"""Database and table."""


class Means(Enum):
    """What a statement does."""

    BEGIN = auto()
    COMMIT = auto()
    ROLLBACK = auto()
    XA_BEGIN = auto()
    XA_COMMIT = auto()
    XA_ROLLBACK = auto()
    TRUNCATE = auto()
    TABLES = auto()
    ROWS = auto()
    NOTHING = auto()


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement.

    Attributes:
        means: What it does.
        database: The database that it ran in.
        text: Itself.
        tables: The tables that it names; of RENAME the old names.
        renamed: The new names of tables, by the old ones.
        xid: Of XA, the transaction.
        stamp: When, in microseconds.
    """

    means: Means
    database: str
    text: str
    tables: tuple[TableName, ...] = ()
    renamed: tuple[tuple[TableName, TableName], ...] = ()
    xid: str = ""
    stamp: int = 0


_COMMENT: Final = re.compile(
    r"(`(?:[^`]|``)*`|'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\")"  # what is quoted stays
    r"|/\*(?:!\d*)?.*?\*/|(?:--\s|#)[^\n]*",
    re.DOTALL,
)
_NAME: Final = r"(?:`(?:[^`]|``)+`|\"(?:[^\"]|\"\")+\"|[^\s`\".,;()]+)"
_TABLE: Final = rf"(?:{_NAME}\s*\.\s*)?{_NAME}"
_TRUNCATE: Final = re.compile(rf"TRUNCATE\s+(?:TABLE\s+)?({_TABLE})", re.IGNORECASE)
_CHANGES: Final = re.compile(
    r"(?:CREATE|ALTER|DROP)\s+(?:(?:OR\s+REPLACE|ONLINE|IGNORE|TEMPORARY)\s+)*TABLE\s+"
    rf"(?:IF\s+(?:NOT\s+)?EXISTS\s+)?({_TABLE}(?:\s*,\s*{_TABLE})*)",
    re.IGNORECASE,
)
_RENAME: Final = re.compile(r"RENAME\s+TABLES?\s+(?:IF\s+EXISTS\s+)?", re.IGNORECASE)
_PAIR: Final = re.compile(rf"({_TABLE})(?:\s+(?:NO)?WAIT\s*\d*)?\s+TO\s+({_TABLE})", re.IGNORECASE)
_ALTER_RENAME: Final = re.compile(
    rf"ALTER\s.*?\bRENAME\s+(?!(?:COLUMN|INDEX|KEY)\b)(?:(?:TO|AS)\s+|=\s*)?({_TABLE})",
    re.IGNORECASE | re.DOTALL,
)
_ROWS: Final = re.compile(
    r"(?:INSERT|REPLACE|UPDATE|DELETE|LOAD\s+DATA)\s+"
    r"(?:(?:LOW_PRIORITY|DELAYED|HIGH_PRIORITY|IGNORE|QUICK|INTO|FROM)\s+)*"
    rf"(?:(?:LOCAL\s+)?INFILE\s+.*?INTO\s+TABLE\s+)?({_TABLE})",
    re.IGNORECASE | re.DOTALL,
)
_XA: Final = re.compile(r"XA\s+(START|BEGIN|COMMIT|ROLLBACK)\s+(.*)", re.IGNORECASE | re.DOTALL)
_PARTS: Final = re.compile(_NAME)


def understood(database: str, text: str) -> Statement:
    """Return what a statement means."""
    plain = _COMMENT.sub(lambda found: found[1] or " ", text).strip()
    word = plain.split(None, 1)[0].upper().rstrip(";") if plain else ""
    match word:
        case "BEGIN" | "START":
            return Statement(Means.BEGIN, database, text)
        case "COMMIT":
            return Statement(Means.COMMIT, database, text)
        case "ROLLBACK" if not re.match(r"ROLLBACK\s+(?:WORK\s+)?TO\b", plain, re.IGNORECASE):
            return Statement(Means.ROLLBACK, database, text)
        case "XA":
            return _xa(database, plain)
        case "TRUNCATE":
            found = _TRUNCATE.match(plain)
            tables = (_table(found[1], database),) if found else ()
            return Statement(Means.TRUNCATE, database, text, tables)
        case "CREATE" | "ALTER" | "DROP" | "RENAME":
            return _changes(database, text, plain)
        case "INSERT" | "REPLACE" | "UPDATE" | "DELETE" | "LOAD":
            found = _ROWS.match(plain)
            tables = (_table(found[1], database),) if found else ()
            return Statement(Means.ROWS, database, text, tables)
    return Statement(Means.NOTHING, database, text)


def _changes(database: str, text: str, plain: str) -> Statement:
    rename = _RENAME.match(plain)
    pairs: list[tuple[TableName, TableName]] = []
    tables: list[TableName] = []
    if rename:
        pairs = [
            (_table(old, database), _table(new, database))
            for old, new in _PAIR.findall(plain[rename.end() :])
        ]
        tables = [old for old, _ in pairs]
    elif found := _CHANGES.match(plain):
        tables = [_table(part, database) for part in re.findall(_TABLE, found[1])]
        renamed = _ALTER_RENAME.match(plain)
        if renamed and tables:
            pairs = [(tables[0], _table(renamed[1], tables[0][0]))]
    means = Means.TABLES if tables else Means.NOTHING
    return Statement(means, database, text, tuple(tables), tuple(pairs))


def _xa(database: str, plain: str) -> Statement:
    found = _XA.match(plain)
    if found is None:
        return Statement(Means.NOTHING, database, plain)
    verb, rest = found[1].upper(), found[2]
    if "ONE PHASE" in rest.upper():  # it was never prepared: its rows stand right before this
        means = Means.COMMIT if verb == "COMMIT" else Means.ROLLBACK
        return Statement(means, database, plain)
    xid = re.sub(r"\s+", "", rest.rstrip(";"))
    means = {"COMMIT": Means.XA_COMMIT, "ROLLBACK": Means.XA_ROLLBACK}.get(verb, Means.XA_BEGIN)
    return Statement(means, database, plain, xid=_one_xid(xid))


def _one_xid(text: str) -> str:
    """Return a transaction's name in the one form of `events.xid_name`."""
    gtrid, bqual, form, *_ = [*text.split(","), "", "1"] if text.count(",") < 2 else text.split(",")
    return f"X'{_hex(gtrid)}',X'{_hex(bqual)}',{form or 1}"


def _hex(part: str) -> str:
    if part[:2].upper() == "X'":
        return part[2:-1].lower()
    if part[:2].lower() == "0x":
        return part[2:].lower()
    return part.strip("'").encode().hex()


def _table(text: str, database: str) -> TableName:
    parts = [_plain(part) for part in _PARTS.findall(text)]
    return (parts[0], parts[1]) if len(parts) == 2 else (database, parts[0])


def _plain(name: str) -> str:
    quote = name[0]
    if quote in {"`", '"'} and len(name) > 1:
        return name[1:-1].replace(quote * 2, quote)
    return name
