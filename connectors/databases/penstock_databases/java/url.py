"""JDBC URLs of any kind: a place and options that do no harm. Pure.

A driver's options can run statements (H2's INIT), load classes or open files, and nobody can know
those of all drivers. So an option that is not known to be harmless is refused.
"""

from __future__ import annotations

import re
from typing import Final

from penstock_connector import ConfigError
from penstock_databases.url import KINDS, Target, parse_url

_SHAPE: Final = re.compile(r"jdbc:([A-Za-z0-9+_-]+):(\S.*)", re.DOTALL)
_OPTION: Final = re.compile(r"[;?&:,(/]\s*([A-Za-z][\w.]*)\s*=")
_CREDENTIALS: Final = frozenset({"user", "username", "uid", "password", "pwd", "passwd", "token"})
_ORACLE_LOGIN: Final = re.compile(r"(?:thin|oci):[^@/]+/[^@]*@|//[^/@]*:[^/@]*@")
_HARMLESS: Final = frozenset({
    # where
    "address", "address_list", "connect_data", "description", "host", "port", "protocol", "server",
    "service_name", "sid", "instancename", "databasename", "database", "db", "schema",
    "currentschema", "catalog", "warehouse", "role", "account", "failoverpartner",
    "applicationintent", "multisubnetfailover", "ifexists", "mode", "read_only", "readonly",
    "access_mode_data",
    # how safely
    "encrypt", "ssl", "sslconnection", "sslmode", "hostnameincertificate",
    # how long, and who
    "logintimeout", "connecttimeout", "connect_timeout", "sockettimeout", "querytimeout",
    "locktimeout", "lock_timeout", "applicationname", "packetsize", "sendstringparametersasunicode",
})  # fmt: skip


def any_url(text: str) -> Target:
    """Return what a URL says: of a database that has a room here, else of one with a driver.

    Raises:
        ConfigError: as `url.parse_url`.
    """
    shape = _SHAPE.fullmatch(text.strip())
    if shape is None or shape[1].lower() in KINDS:
        return parse_url(text)
    names = [name.lower() for name in _OPTION.findall(text)]
    if _CREDENTIALS.intersection(names) or _ORACLE_LOGIN.search(shape[2]):
        raise ConfigError(
            "jdbc.url.credentials",
            "the URL has credentials in it, and URLs are shown to people",
            fix="Take them out, and set `connection.user` and `connection.password`.",
            config_path="connection.url",
        )
    refused = next((name for name in names if name not in _HARMLESS), "")
    if refused:
        raise ConfigError(
            "jdbc.url.option_refused",
            f"the option {refused!r} is not one of those that are known to do no harm",
            fix="Leave it out: an option of a driver could run code or open files.",
            config_path="connection.url",
        )
    return Target("java", database=text.strip(), zero_dates="fail")
