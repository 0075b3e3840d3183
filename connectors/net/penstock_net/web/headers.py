"""Lists of headers in a configuration, and the `Link` header of an answer. Pure."""

from __future__ import annotations

import re
from typing import Final

from penstock_connector import ConfigError

_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_OWN: Final = frozenset({"host", "content-length", "transfer-encoding", "connection", "expect"})
"""Headers by which requests are told apart on a connection: a user who set one could put a second
request into the first."""

_PARAM: Final = r';\s*([^\s,;="]+)\s*(?:=\s*(?:"([^"]*)"|([^\s,;"]*)))?\s*'
_LINK: Final = re.compile(rf"<([^>]*)>\s*((?:{_PARAM})*)")


def is_header(name: str, value: str) -> bool:
    """Return whether it may be sent as a header."""
    return (
        _NAME.fullmatch(name) is not None
        and _VALUE.fullmatch(value) is not None
        and name.lower() not in _OWN
    )


def headers_of(text: str, path: str) -> dict[str, str]:
    r"""Return the headers of `Name: value | Name: value`; a `|` in a value is written `\|`.

    Raises:
        ConfigError: `config.invalid_value`. The value is not in it: it may be a secret.
    """
    found: dict[str, str] = {}
    for number, part in enumerate(re.split(r"(?<!\\)\|", text), start=1):
        if not part.strip():
            continue
        name, colon, value = part.replace("\\|", "|").partition(":")
        name, value = name.strip(), value.strip()
        if not colon or not is_header(name, value):
            raise ConfigError(
                "config.invalid_value",
                f"`{path}`: header {number} is not one that can be sent",
                fix="Write `Name: value`, with `|` between headers; "
                f"{', '.join(sorted(_OWN))} are set by the connector.",
                config_path=path,
            )
        found[name] = value
    return found


def next_link(header: str) -> str:
    """Return the target of `rel=next` in a `Link` header; empty when there is none."""
    for link in _LINK.finditer(header):
        for name, quoted, bare in re.findall(_PARAM, link[2]):
            if name.lower() == "rel" and "next" in (quoted or bare).lower().split():
                return link[1].strip()
    return ""
