"""Connection URLs as Kafka Connect's JDBC connectors take them, without a Java driver behind.

    jdbc:mysql://host:3306,other/database?sslMode=REQUIRED
    jdbc:mariadb://… · jdbc:postgresql://host/database?currentSchema=s · jdbc:sqlite:/path/file.db

Options are allow-listed: what would let a URL run code, read files or switch off a check is
refused (`jdbc.url.option_refused`), and so is what nobody knows. Options that only tune the Java
driver mean nothing here and are passed over. Pure.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

from penstock_connector import ConfigError
from penstock_connector.reach import Reach


@dataclass(frozen=True, slots=True)
class Target:
    """Where a database is and how it is talked to.

    Attributes:
        dialect: `mysql` (MariaDB, too), `postgresql`, `sqlite`, or `java` (any with a driver).
        hosts: Servers in the order in which they are tried, with their ports; none for SQLite.
        database: The database; for SQLite the path of the file, for a driver the whole URL.
        tls: `disable`, `prefer`, `require`, `verify-ca` or `verify-full`.
        ca, certificate, certificate_key: Files for TLS, or empty.
        connect_timeout, read_timeout: Seconds.
        schema: PostgreSQL's search path, or empty.
        application: What the server shows as the client's name.
        zero_dates: What a date of zeros is: `fail`, `null` or `round`.
    """

    dialect: str
    hosts: tuple[tuple[str, int], ...] = ()
    database: str = ""
    tls: str = "prefer"
    ca: str = ""
    certificate: str = ""
    certificate_key: str = ""
    connect_timeout: float = 10.0
    read_timeout: float = 600.0
    schema: str = ""
    application: str = "penstock"
    zero_dates: str = "null"

    def __str__(self) -> str:
        """Name it for people: no option and no credential."""
        if self.dialect == "sqlite":
            return f"sqlite:{self.database}"
        if self.dialect == "java":
            return re.split(r"[;?(]", self.database.removeprefix("jdbc:"), maxsplit=1)[0]
        where = ",".join(f"{_bracketed(host)}:{port}" for host, port in self.hosts)
        return f"{self.dialect}://{where}/{self.database}"


def require_target(target: Target, reach: Reach, path: str) -> None:
    """Raise when a database, or a file for TLS, may not be reached; `path` is the key of the URL.

    Raises:
        ConfigError: `reach.host`, `reach.folder`, `reach.url`.
    """
    if target.dialect == "java" and not reach.everything:
        raise ConfigError(
            "reach.url",
            f"only the driver knows what {target} reaches, and the node bounds it",
            fix="Take a database of MariaDB, MySQL, PostgreSQL or SQLite; or have both "
            "`reach.<rule>.folders=*` and `reach.<rule>.hosts=*` set at the workers.",
            config_path=path,
        )
    if target.dialect == "sqlite":
        reach.require_path(target.database, path)
    for host, _ in target.hosts:
        reach.require_host(host, path)
    for file in (target.ca, target.certificate, target.certificate_key):
        reach.require_path(file, path)


_PORTS: Final = {"mysql": 3306, "postgresql": 5432}
KINDS: Final = {
    "mysql": "mysql",
    "mariadb": "mysql",
    "postgresql": "postgresql",
    "postgres": "postgresql",
    "sqlite": "sqlite",
}
"""Kinds of databases that have a room here, by their names in URLs."""

_SHAPE: Final = re.compile(r"jdbc:([A-Za-z0-9+]+):(.*)", re.DOTALL)
_HOST: Final = re.compile(r"(?:\[([0-9A-Fa-f:.%]+)\]|([^:\[\]()]*))(?::([0-9]{1,5}))?")


def parse_url(text: str) -> Target:
    """Return what a URL says.

    Raises:
        ConfigError: `jdbc.url.malformed`, `jdbc.url.dialect`, `jdbc.url.credentials`,
            `jdbc.url.option_refused`, `jdbc.url.option_unknown`, `jdbc.url.option_value`.
    """
    shape = _SHAPE.fullmatch(text.strip())
    if shape is None:
        raise _error("malformed", "this is no JDBC URL", "Write jdbc:mysql://host:3306/database.")
    dialect = KINDS.get(shape[1].lower())
    if dialect is None:
        raise _error(
            "dialect",
            f"there is no connector here for {shape[1]!r}",
            "It can be mysql, mariadb, postgresql or sqlite.",
        )
    if dialect == "sqlite":
        return _sqlite(shape[2])
    place, _, query = shape[2].partition("?")
    hosts, database = _server(place, dialect)
    given = parse_qsl(query, keep_blank_values=True)
    return Target(dialect, hosts, database, **_options(dialect, given))


def _sqlite(rest: str) -> Target:
    path, _, query = rest.partition("?")
    path = path.removeprefix("file:")
    if not path or path == ":memory:":
        raise _error("malformed", "the URL names no file", "Write jdbc:sqlite:/folder/file.db.")
    return Target("sqlite", (), path, **_options("sqlite", parse_qsl(query)))


def _server(place: str, dialect: str) -> tuple[tuple[tuple[str, int], ...], str]:
    if not place.startswith("//"):  # PostgreSQL's short form: jdbc:postgresql:database
        if dialect == "postgresql" and place:
            return (("localhost", _PORTS[dialect]),), unquote(place.lstrip("/"))
        raise _error("malformed", "the URL names no server", "Write //host:port/database.")
    authority, _, database = place[2:].partition("/")
    if "@" in authority:
        raise _credentials()
    hosts = tuple(_host(part, _PORTS[dialect]) for part in authority.split(","))
    return hosts, unquote(database)


def _host(text: str, port: int) -> tuple[str, int]:
    match = _HOST.fullmatch(text.strip())
    if match is None or (match[3] and not 0 < int(match[3]) < 1 << 16):
        raise _error("malformed", f"{text!r} is no host with a port", "Write host, or host:port.")
    return match[1] or match[2] or "localhost", int(match[3] or port)


# ── options ──────────────────────────────────────────────────────────────────────────────────────

_TLS: Final = {
    "disabled": "disable", "disable": "disable", "preferred": "prefer", "prefer": "prefer",
    "allow": "prefer", "required": "require", "require": "require", "trust": "require",
    "verify_ca": "verify-ca", "verify-ca": "verify-ca", "verify_identity": "verify-full",
    "verify-full": "verify-full",
}  # fmt: skip
_FLAG: Final = {"true": True, "false": False, "1": True, "0": False, "": True}
_ZERO_DATES: Final = {
    "exception": "fail", "converttonull": "null", "convert_to_null": "null", "round": "round",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Known:
    """What a dialect's URL may have beside the place: option, lower case → what it sets."""

    sets: Mapping[str, str]
    passed_over: frozenset[str]
    refused: frozenset[str] = field(default_factory=frozenset)


_KNOWN: Final = {
    "mysql": _Known(
        {
            "sslmode": "tls", "usessl": "tls?", "requiressl": "tls!",
            "verifyservercertificate": "tls+",
            "servercertificate": "ca", "connecttimeout": "connect_timeout ms",
            "sockettimeout": "read_timeout ms", "zerodatetimebehavior": "zero_dates",
        },
        frozenset({
            "useunicode", "characterencoding", "autoreconnect", "rewritebatchedstatements",
            "useserverprepstmts", "cacheprepstmts", "prepstmtcachesize", "prepstmtcachesqllimit",
            "usecursorfetch", "defaultfetchsize", "usecompression", "allowpublickeyretrieval",
            "tcpkeepalive", "servertimezone", "connectiontimezone", "uselegacydatetimecode",
            "tinyint1isbit", "nullcatalogmeanscurrent", "usebulkstmts", "yeardatetype",
            "forceconnectiontimezonetosession", "preserveinstants", "useinformationschema",
        }),
        frozenset({
            "allowloadlocalinfile", "allowloadlocalinfileinpath", "allowurlinlocalinfile",
            "allowlocalinfile", "autodeserialize", "queryinterceptors", "statementinterceptors",
            "exceptioninterceptors", "connectionlifecycleinterceptors", "socketfactory",
            "clientinfoprovider", "authenticationplugins", "defaultauthenticationplugin",
            "propertiestransform", "allowmultiqueries", "sessionvariables", "initsql",
            "logger", "profilereventhandler", "serverconfigcachefactory", "localsocket", "pipe",
            "trustcertificatekeystoreurl", "clientcertificatekeystoreurl", "credentialtype",
        }),
    ),
    "postgresql": _Known(
        {
            "ssl": "tls!", "sslmode": "tls", "sslrootcert": "ca", "sslcert": "certificate",
            "sslkey": "certificate_key", "currentschema": "schema",
            "applicationname": "application", "connecttimeout": "connect_timeout s",
            "logintimeout": "connect_timeout s", "sockettimeout": "read_timeout s",
        },
        frozenset({
            "rewritebatchedinserts", "preparethreshold", "preparedstatementcachequeries",
            "preparedstatementcachesizemib", "defaultrowfetchsize", "tcpkeepalive",
            "binarytransfer", "stringtype", "targetservertype", "adaptivefetch",
            "loadbalancehosts", "assumeminserverversion", "disablecolumnsanitiser",
        }),
        frozenset({
            "socketfactory", "socketfactoryarg", "sslfactory", "sslfactoryarg",
            "sslhostnameverifier",
            "sslpasswordcallback", "authenticationpluginclassname", "loggerfile", "loggerlevel",
            "options", "xmlfactoryfactory", "jaasapplicationname", "jaaslogin", "service",
        }),
    ),
    "sqlite": _Known(
        {"busy_timeout": "read_timeout ms"},
        frozenset({"cache_size", "journal_mode", "synchronous", "foreign_keys"}),
        frozenset({"enable_load_extension"}),
    ),
}  # fmt: skip

_CREDENTIALS: Final = frozenset({"user", "username", "password", "sslpassword", "password1"})


def _options(dialect: str, given: list[tuple[str, str]]) -> dict[str, Any]:
    """Return the fields of a target that options set."""
    known = _KNOWN[dialect]
    fields: dict[str, Any] = {}
    for option, value in given:
        name = option.lower()
        if name in _CREDENTIALS:
            raise _credentials()
        if name in known.refused:
            raise _error(
                "option_refused",
                f"the option {option!r} is not allowed in a URL",
                "Leave it out: it could run code, open files, or switch off a check.",
            )
        if name in known.sets:
            _set(fields, known.sets[name], option, value)
        elif name not in known.passed_over:
            close = difflib.get_close_matches(name, [*known.sets, *known.passed_over], n=1)
            fix = f"Did you mean {close[0]!r}?" if close else "Leave it out."
            raise _error("option_unknown", f"there is no option {option!r}", fix)
    return fields


def _set(fields: dict[str, Any], what: str, option: str, value: str) -> None:
    name, _, unit = what.partition(" ")
    try:
        if name in {"connect_timeout", "read_timeout"}:
            seconds = float(value) / (1000 if unit == "ms" else 1)
            if seconds > 0:  # 0 is Java's "for ever": every wait here has a deadline
                fields[name] = seconds
        elif name.startswith("tls"):
            _set_tls(fields, name, value.lower())
        else:
            fields[name] = _ZERO_DATES[value.lower()] if name == "zero_dates" else value
    except (KeyError, ValueError) as error:
        raise _error(
            "option_value", f"{value!r} is no value of the option {option!r}", "Correct it."
        ) from error


def _set_tls(fields: dict[str, Any], how: str, value: str) -> None:
    if how == "tls":
        fields["tls"] = _TLS[value]
    elif how == "tls?":  # useSSL: TLS when true, none when false
        fields["tls"] = "require" if _FLAG[value] else "disable"
    elif _FLAG[value]:
        fields["tls"] = "verify-ca" if how == "tls+" else fields.get("tls", "require")


def _credentials() -> ConfigError:
    return _error(
        "credentials",
        "the URL has credentials in it, and URLs are shown to people",
        "Take them out, and set `connection.user` and `connection.password`.",
    )


def _error(code: str, message: str, fix: str) -> ConfigError:
    return ConfigError(f"jdbc.url.{code}", message, fix=fix, config_path="connection.url")


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
