"""JDBC URLs of any kind: a place and options that do no harm. Pure.

A driver's options can run statements (H2's INIT), load classes or open files, and those of all
drivers cannot be known. So the URL is cut at every sign that any driver takes for a separator, and
each part that has a `=` must set an option that is known to be harmless. Signs that a driver could
read in another way (a backslash that H2 removes, letters that become others in capitals, percent
escapes, spaces and control characters) are refused wherever they stand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from penstock_connector import ConfigError
from penstock_databases.url import KINDS, Target, parse_url

_SHAPE: Final = re.compile(r"jdbc:([A-Za-z0-9+_-]+):(.+)", re.DOTALL | re.ASCII)
_SEPARATORS: Final = re.compile(r"[;?&:,()/@#|{}\[\]]")
_REFUSED: Final = re.compile(r"[^!-~]|[\\%\"'`<>^]")
"""Whatever is not a visible ASCII character, and signs by which drivers escape or quote others."""
_NAME: Final = re.compile(r"[A-Za-z][\w.]*", re.ASCII)
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
    sign = _REFUSED.search(text.strip())
    if sign is not None:
        raise ConfigError(
            "jdbc.url.option_refused",
            f"the URL has the character {sign[0]!a}, which a driver may read as another one",
            fix="Write the URL with letters, digits and the signs . : / @ ; ? & = , ( ) _ - only.",
            config_path="connection.url",
        )
    names = list(_option_names(shape[2]))
    if _CREDENTIALS.intersection(names) or _ORACLE_LOGIN.search(shape[2]):
        raise ConfigError(
            "jdbc.url.credentials",
            "the URL has credentials in it, and URLs are shown to people",
            fix="Take them out, and set `connection.user` and `connection.password`.",
            config_path="connection.url",
        )
    refused = next((name for name in names if name not in _HARMLESS), None)
    if refused is not None:
        raise ConfigError(
            "jdbc.url.option_refused",
            f"the option {refused!r} is not one of those that are known to do no harm",
            fix="Leave it out: an option of a driver could run code or open files.",
            config_path="connection.url",
        )
    return Target("java", database=text.strip(), zero_dates="fail")


def _option_names(rest: str) -> Iterator[str]:
    """Return the names of all options, in small letters: of each part with a `=` what stands before
    it. Something else than a name is returned as it stands, which is on no list.
    """
    for part in _SEPARATORS.split(rest):
        name, equals, _ = part.partition("=")
        if equals:
            yield name.lower() if _NAME.fullmatch(name) else name
