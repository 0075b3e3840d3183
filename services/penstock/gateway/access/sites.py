"""Requests that a web page of another site has a browser send.

A browser on this machine reaches what listens on it, and adds what it knows of a person: a
password, a certificate. It says which page asks (`Origin`, `Sec-Fetch-Site`); what is no browser
says nothing. Where nobody is asked who he is, the name that was asked for counts too: a page may
give its own name the address 127.0.0.1 (DNS rebinding).
Source: https://developer.mozilla.org/docs/Web/Security/Attacks/CSRF
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from penstock.model.errors import AuthError

_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN: Final = frozenset({"", "same-origin", "none"})


def refuse_other_sites(method: str, headers: Mapping[str, str]) -> None:
    """Refuse a change that a page of another site asks for. Header names are in lower case.

    Raises:
        AuthError: `access.other_site`.
    """
    if method in _READS:
        return
    origin, host = headers.get("origin", ""), headers.get("host", "")
    own = not origin or urlsplit(origin).netloc.lower() == host.lower()
    if not own or headers.get("sec-fetch-site", "") not in _OWN:
        raise AuthError(
            "access.other_site",
            f"a page of {origin[:200] or 'another site'} asks for a change",
            fix="Send it from a program, or from a page that is served under the same name.",
        )


def refuse_other_names(headers: Mapping[str, str]) -> None:
    """Refuse what was not asked of this machine by a name that only it has.

    Raises:
        AuthError: `access.other_name`.
    """
    host = headers.get("host", "")
    if not of_this_machine(host):
        raise AuthError(
            "access.other_name",
            f"{host[:200]!r} is not this machine, and nothing says who may do what",
            fix="Ask 127.0.0.1 or localhost; or set `auth.users`, or `auth.open=true` where "
            "everybody may do everything.",
        )


def of_this_machine(host: str) -> bool:
    """Tell whether HOST or HOST:PORT names this machine, and no other can be meant."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
