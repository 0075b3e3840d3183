"""What ClickHouse says, as errors that tell people what happened and what to do.

The server's own numbers come in `X-ClickHouse-Exception-Code`, and in the text as `Code: 60.`.
They are named in its `src/Common/ErrorCodes.cpp`. Pure.
"""

from __future__ import annotations

import re
from typing import Final

from penstock_connector import (
    AuthError,
    ConfigError,
    ConnectorError,
    DataError,
    RetriableError,
    SchemaError,
)

_CODE: Final = re.compile(r"Code: (\d+)[.,] (?:e\.displayText\(\) = )?")
_TAIL: Final = re.compile(
    r"\s*\(version [\d.]+.*|\s*Stack trace:.*|: While executing .*", re.DOTALL
)
_LONGEST: Final = 300
"""Characters of what a server said. Longer texts quote whole statements, with values in them."""


class PassingError(RetriableError):
    """The same request may succeed in a moment: it is made again by the task itself."""


_KINDS: Final[dict[str, tuple[type[ConnectorError], str]]] = {
    "busy": (
        PassingError,
        "It is tried again, later and later; make inserts fewer (`flush.interval`), or add memory.",
    ),
    "unreachable": (PassingError, "Is the server up, and are `hostname` and `port` right?"),
    "auth": (AuthError, "Correct `username` and `password`; has the password expired?"),
    "denied": (
        AuthError,
        "GRANT SELECT, INSERT, CREATE TABLE, DROP TABLE, ALTER on the database to the user.",
    ),
    "no_database": (ConfigError, "Correct `database`, or run: CREATE DATABASE <name>"),
    "table_gone": (
        RetriableError,
        "It is tried again with the table as it is then; make it again, or set `auto.create=true`.",
    ),
    "table_changed": (RetriableError, "It is tried again with the table as it is then."),
    "setting": (ConfigError, "Correct `clickhouseSettings`."),
    "refused": (
        DataError,
        "A constraint or a view of the table does not take these rows: change it, or the rows.",
    ),
    "answer": (
        PassingError,
        "Is `port` the HTTP port (8123, with `ssl` 8443), and is no proxy's page in between?",
    ),
    "redirect": (ConfigError, "Set `hostname` and `port` to the server itself."),
    "tls": (
        ConfigError,
        "Set `ssl` as the server has it, and `ssl.ca.file` to the file of its authority.",
    ),
    "failed": (ConnectorError, "See the server's log; if the statement is wrong, it is a defect."),
}

_CODES: Final = {
    # too many parts, queries; memory, time, network; a replica that is not ready
    **dict.fromkeys(
        (252, 241, 202, 159, 160, 209, 210, 203, 236, 242, 243, 279, 285, 319, 394, 425, 473, 999),
        "busy",
    ),
    **dict.fromkeys((516, 192, 193, 194), "auth"),
    **dict.fromkeys((497, 164, 291), "denied"),
    81: "no_database",
    **dict.fromkeys((60, 218), "table_gone"),
    **dict.fromkeys((8, 10, 16, 47), "table_changed"),
    **dict.fromkeys((115, 452), "setting"),
    **dict.fromkeys((6, 27, 38, 41, 53, 69, 70, 131, 349, 395, 469), "refused"),
}

UNKNOWN_TABLE: Final = 60
EXISTS: Final = (15, 44, 57)
"""Of a column, a table: another task was faster."""


class ServerError:
    """Keeps a server's number beside an error, for who can do something about it."""

    @staticmethod
    def number(error: BaseException) -> int:
        """Return the number; 0 when there is none."""
        return int(getattr(error, "clickhouse_code", 0))


def clickhouse_error(kind: str, where: str, said: object) -> ConnectorError:
    """Return an error of a kind: `clickhouse.<kind>`. `said` must have no secrets in it."""
    make, fix = _KINDS[kind]
    return make(f"clickhouse.{kind}", f"{where}: {one_line(str(said))}", fix=fix)


def server_error(where: str, said: str, code: int, status: int = 500) -> ConnectorError:
    """Return what a server said as an error for people.

    Args:
        where: The server.
        said: The body of its answer.
        code: The number in its header; 0 when there was none.
        status: That of the answer.
    """
    match = _CODE.search(said)
    code = code or (int(match[1]) if match else 0)
    kind = _CODES.get(code, "failed")
    if not code:
        overloaded = status in {429, 502, 503, 504}
        kind = "busy" if overloaded else "auth" if status in {401, 403} else "answer"
    text = said[match.end() :] if match else said
    text = _TAIL.sub("", text.removeprefix("DB::Exception: "))
    numbered = f"[{code}] {text}" if code else f"HTTP {status}: {text}"
    error = clickhouse_error(kind, where, numbered)
    error.clickhouse_code = code  # type: ignore[attr-defined] # read by `ServerError.number` alone
    return error


def told_of_schema(error: ConnectorError) -> ConnectorError:
    """Return an error of DDL: what a server refuses there is about the schema."""
    if type(error) is not ConnectorError:
        return error
    return SchemaError("clickhouse.ddl", error.message, fix="Make the table or column by hand.")


def one_line(said: str) -> str:
    """Return a text as one line of bounded length, without control characters."""
    text = " ".join("".join(c if c.isprintable() else " " for c in said).split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
