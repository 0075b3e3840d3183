"""What Databend says, as errors that tell people what happened and what to do.

Both engines end an error with the server's own code: `[1025]…` over HTTP, `Code: 1025, Text = …`
from the embedded one. The numbers: https://docs.databend.com/guides/query/errors. Pure.
"""

from __future__ import annotations

import re
from typing import Final

from penstock_connector import ConnectorError, RetriableError
from penstock_databases.failing import one_line, sql_error

_CODE: Final = re.compile(r"Code: (\d{4}), Text = |\[(\d{4})\]")
_TRACE: Final = re.compile(r"\n\s*0: |\s\[v\d+\.\d+\.\d+\]")
"""Where a text goes on that is not for people: a stack, the driver's version."""

_KINDS: Final = {
    1003: "no_database", 1025: "no_table", 1058: "no_column", 1063: "denied", 1043: "lost",
    1065: "no_column", 2009: "busy", 2014: "busy", 2015: "busy", 2302: "busy", 1108: "busy",
    2002: "busy", 1006: "value", 1010: "value", 1101: "value", 2201: "auth", 2202: "auth",
    5100: "auth", 5101: "auth", 5102: "auth", 5103: "auth", 3001: "lost", 3002: "denied",
    1041: "overloaded", 1104: "overloaded", 4001: "constraint",
}  # fmt: skip

EXISTS: Final = (1108, 2302)
"""Of a column, a table: another task was faster."""

_UNREACHABLE: Final = (
    "connection refused", "error sending request", "dns error", "timed out", "timeout",
    "connection reset", "connection closed", "broken pipe", "unreachable", "ioerror",
)  # fmt: skip


class Coded:
    """Keeps a server's number beside an error, for who can do something about it."""

    @staticmethod
    def of(error: BaseException) -> int:
        """Return the number; 0 when there is none."""
        return int(getattr(error, "databend_code", 0))


def databend_error(said: str, where: object) -> ConnectorError:
    """Return what an engine said as an error for people. `said` must have no secrets in it."""
    match = _CODE.search(said)
    text = _TRACE.split(said[match.end() :] if match else said, maxsplit=1)[0]
    if match is None:
        found = any(word in said.lower() for word in _UNREACHABLE)
        return sql_error("unreachable" if found else "failed", where, text)
    code = int(match[1] or match[2])
    error = sql_error(_KINDS.get(code, "failed"), where, f"[{code}] {text}")
    error.databend_code = code  # type: ignore[attr-defined] # read by `Coded.of` alone
    return error


def lost(where: object, said: object) -> RetriableError:
    """Return that the session is gone, and with it what it had not committed."""
    return RetriableError(
        "sql.lost",
        f"{where}: {one_line(said)}",
        fix="It is tried again from the last committed offset.",
    )
