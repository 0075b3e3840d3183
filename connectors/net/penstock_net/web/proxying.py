"""A proxy that asks servers for us."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field

import httpcore

from penstock_connector.reach import Reach
from penstock_net.web.address import Address


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy of HTTP: it passes on requests, and for https connects.

    Attributes:
        address: Where it is.
        tls: How TLS is spoken with it, where its address begins with https.
        user: Who may use it; empty: anybody.
        password: The user's.
        exclude: Hosts that it is not asked for.
    """

    address: Address
    tls: ssl.SSLContext
    user: str
    password: str = field(repr=False)
    exclude: tuple[str, ...]

    def asks(self, host: str) -> bool:
        """Return whether it is asked for a host."""
        return not Reach(hosts=self.exclude).has_host(host)

    def of_library(self) -> httpcore.Proxy:
        """Return it as the library knows it."""
        return httpcore.Proxy(
            self.address.of_library(),
            auth=(self.user.encode(), self.password.encode()) if self.user else None,
            ssl_context=self.tls if self.address.tls else None,
        )
