"""What a Java driver says, as errors that tell people what happened. The class of the SQLSTATE
decides (SQL:2016, part 2, §24), and words of drivers that have states of their own.
"""

from __future__ import annotations

import re
from typing import Any, Final

from penstock_connector import ConnectorError
from penstock_databases.failing import sql_error
from penstock_databases.java.drivers import no_driver

_STATES: Final = (
    ("28", "auth"), ("08001", "unreachable"), ("08004", "unreachable"), ("08", "lost"),
    ("3D", "no_database"),
    ("42S02", "no_table"), ("42X05", "no_table"), ("42Y55", "no_table"), ("42P01", "no_table"),
    ("42704", "no_table"), ("42102", "no_table"), ("42S22", "no_column"), ("42X04", "no_column"),
    ("42703", "no_column"), ("42122", "no_column"), ("42501", "denied"), ("4250", "denied"),
    ("40", "busy"), ("41", "busy"), ("53", "overloaded"), ("57", "lost"), ("23", "constraint"),
    ("22", "value"), ("XJ004", "no_database"), ("XJ040", "busy"),
)  # fmt: skip
"""Beginnings of states, the exact ones first; those of Derby, H2, DB2 and HSQLDB among them."""

_VENDORS: Final = (
    (re.compile(r"ORA-00942|Invalid object name|able .*(not found|does not exist)"), "no_table"),
    (re.compile(r"ORA-00904|Invalid column name"), "no_column"),
    (re.compile(r"ORA-01017|Login failed"), "auth"),
    (re.compile(r"refused|unreachable|UnknownHost|timed out"), "unreachable"),
    (re.compile(r"closed|reset|Broken pipe"), "lost"),
)  # fmt: skip


def driver_error(bridge: Any, error: BaseException, where: object) -> ConnectorError:
    """Return what a driver threw as an error for people."""
    if isinstance(error, ConnectorError):
        return error
    if not isinstance(error, bridge.JException):
        return sql_error("failed", where, error)
    state = str(error.getSQLState() or "") if hasattr(error, "getSQLState") else ""
    said = str(error.getMessage() or error)
    if said.startswith("No suitable driver"):
        return no_driver(str(where))
    return sql_error(_kind(state, said), where, said)


def _kind(state: str, said: str) -> str:
    by_state = next((kind for start, kind in _STATES if state.startswith(start)), "")
    by_words = next((kind for words, kind in _VENDORS if words.search(said)), "")
    return by_state or by_words or "failed"
