"""Where Databend is.

    jdbc:databend://host:8000/database?sslmode=enable     a server, or Databend Cloud
    databend+local:///folder                              an engine of our own on a folder

Options are allow-listed, as those of `penstock_databases.url`: what only tunes the Java driver is
passed over, what nobody knows is refused. Pure.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, unquote

from penstock_connector import ConfigError


@dataclass(frozen=True, slots=True)
class DatabendTarget:
    """Where a Databend is, and how it is talked to.

    Attributes:
        folder: The engine's folder; empty for a server.
        host, port: The server.
        database: The database, or empty.
        tls: Whether it is talked to by HTTPS.
        ca: File with certificates to trust beside the system's, or empty.
        connect_timeout, query_timeout: Seconds.
        tenant, warehouse, role: Those of Databend Cloud, or empty.
    """

    folder: str = ""
    host: str = ""
    port: int = 8000
    database: str = ""
    tls: bool = False
    ca: str = ""
    connect_timeout: float = 10.0
    query_timeout: float = 100.0
    tenant: str = ""
    warehouse: str = ""
    role: str = ""

    def __str__(self) -> str:
        """Name it for people: no option and no credential."""
        if self.folder:
            return f"databend+local:{self.folder}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"databend://{host}:{self.port}"


_SERVER: Final = re.compile(
    r"(?:jdbc:)?databend://(?:\[([0-9A-Fa-f:.%]+)\]|([^:/?\[\],@]*))(?::([0-9]{1,5}))?(?:/([^/?]*))?",
)
_LOCAL: Final = "databend+local://"
_PORT: Final = 8000
_PORT_TLS: Final = 443

_TLS: Final = {"disable": False, "enable": True, "require": True, "verify-full": True}
_FLAG: Final = {"true": True, "false": False}
_TEXTS: Final = frozenset({"tenant", "warehouse", "role", "database"})
_SECONDS: Final = {
    "connection_timeout": "connect_timeout", "connect_timeout": "connect_timeout",
    "query_timeout": "query_timeout", "socket_timeout": "query_timeout",
}  # fmt: skip
_PASSED_OVER: Final = frozenset({
    "wait_time_secs", "max_rows_in_buffer", "max_rows_per_page", "presigned_url_disabled",
    "presign", "copy_purge", "null_display", "binary_format", "strnullasnull", "debug",
})  # fmt: skip
_REFUSED: Final = frozenset({
    "retry_count", "retry_delay_secs",  # the driver would run a statement twice
    "session_settings", "local_infile",
})  # fmt: skip
_CREDENTIALS: Final = frozenset({
    "user", "username", "password", "access_token", "access_token_file", "accesstoken",
})  # fmt: skip
_KNOWN: Final = (*_TEXTS, *_SECONDS, "sslmode", "ssl", "tls_ca_file")


def parse_url(text: str) -> DatabendTarget:
    """Return what a URL says.

    Raises:
        ConfigError: `databend.url.malformed`, `databend.url.credentials`,
            `databend.url.option_refused`, `databend.url.option_unknown`,
            `databend.url.option_value`.
    """
    text = text.strip()
    if text.startswith(_LOCAL):
        return _local(text.removeprefix(_LOCAL))
    place, _, query = text.partition("?")
    if "@" in place:
        raise _credentials()
    match = _SERVER.fullmatch(place)
    if match is None or (match[3] and not 0 < int(match[3]) < 1 << 16):
        raise _error(
            "malformed",
            "this is no URL of a Databend",
            "Write jdbc:databend://host:8000/database, or databend+local:///folder.",
        )
    fields = _options(parse_qsl(query, keep_blank_values=True))
    tls = bool(fields.get("tls"))
    return DatabendTarget(
        host=match[1] or match[2] or "localhost",
        port=int(match[3] or (_PORT_TLS if tls else _PORT)),
        **{"database": unquote(match[4] or ""), **fields},  # type: ignore[arg-type] # _options pairs names and types
    )


def _local(folder: str) -> DatabendTarget:
    folder = folder.rstrip("/")
    if not folder.startswith("/") or "\0" in folder or "?" in folder:
        raise _error(
            "malformed",
            "the URL names no folder",
            "Write databend+local:///folder, with the folder's full path and no options.",
        )
    return DatabendTarget(folder=folder)


def _options(given: list[tuple[str, str]]) -> dict[str, str | float | bool]:
    fields: dict[str, str | float | bool] = {}
    for option, value in given:
        name = option.lower()
        if name in _CREDENTIALS:
            raise _credentials()
        if name in _REFUSED:
            raise _error(
                "option_refused",
                f"the option {option!r} is not allowed in a URL",
                "Leave it out: it could run a statement twice, or change what one does.",
            )
        if name in _KNOWN:
            _set(fields, name, value)
        elif name not in _PASSED_OVER:
            close = difflib.get_close_matches(name, [*_KNOWN, *_PASSED_OVER], n=1)
            fix = f"Did you mean {close[0]!r}?" if close else "Leave it out."
            raise _error("option_unknown", f"there is no option {option!r}", fix)
    return fields


def _set(fields: dict[str, str | float | bool], name: str, value: str) -> None:
    try:
        if name in _SECONDS:
            seconds = float(value)
            if seconds > 0:  # 0 is Java's "for ever": every wait here has a deadline
                fields[_SECONDS[name]] = seconds
        elif name == "sslmode":
            fields["tls"] = _TLS[value.lower()]
        elif name == "ssl":
            fields["tls"] = _FLAG[value.lower()]
        else:
            fields["ca" if name == "tls_ca_file" else name] = value
    except (KeyError, ValueError) as error:
        raise _error(
            "option_value", f"{value!r} is no value of the option {name!r}", "Correct it."
        ) from error


def _credentials() -> ConfigError:
    return _error(
        "credentials",
        "the URL has credentials in it, and URLs are shown to people",
        "Take them out, and set `connection.user` and `connection.password`.",
    )


def _error(code: str, message: str, fix: str) -> ConfigError:
    return ConfigError(f"databend.url.{code}", message, fix=fix, config_path="connection.url")
