"""Requests that are refused from any sender: too many, and those of other sites' pages."""

from __future__ import annotations

import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

from penstock.model.errors import AuthError, RetriableError

MOST_SENDERS: Final = 10_000
"""Senders that are remembered (invariant 12); who is forgotten begins with all of its savings."""

SAVED: Final = 10.0
"""Seconds whose requests a sender may save up: tools ask in bursts."""


class Rate:
    """So many a second, for each sender."""

    def __init__(self, per_second: float, now: Callable[[], float] = time.monotonic) -> None:
        """`per_second`: 0 for any number."""
        self._interval = 1 / per_second if per_second > 0 else 0.0
        self._now = now
        self._due: OrderedDict[str, float] = OrderedDict()

    def take(self, sender: str) -> None:
        """Count one.

        Raises:
            RetriableError: `http.too_many`: it is one too many, and is not counted.
        """
        if not self._interval:
            return
        self.check(sender)
        self._due[sender] = max(self._due.get(sender, 0.0), self._now()) + self._interval
        self._due.move_to_end(sender)
        if len(self._due) > MOST_SENDERS:
            self._due.popitem(last=False)

    def give_back(self, sender: str) -> None:
        """Take back one that was counted, and should not be."""
        if sender in self._due:
            self._due[sender] -= self._interval

    def check(self, sender: str) -> None:
        """Refuse who has had too many.

        Raises:
            RetriableError: `http.too_many`.
        """
        wait = self._due.get(sender, 0.0) - self._now() - SAVED + self._interval
        if self._interval and wait > 0:
            raise RetriableError(
                "http.too_many",
                "too many requests of one sender",
                fix=f"Send at most {1 / self._interval:g} a second; `Retry-After` says when to go "
                "on.",
                retry_after=math.ceil(wait),
            )


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
