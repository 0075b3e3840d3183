"""Which addresses a connector may be led to: sockets to hosts that others name.

A server that a connector asks may redirect it, and a name may mean another machine tomorrow. So it
is the address that counts, after the name was resolved, and the socket is opened to the very
address that was looked at.

- Link-local and metadata addresses (169.254.0.0/16, fe80::/10, those of clouds) are refused.
- Loopback is refused, unless the configuration itself names it plainly: `localhost`, `127.0.0.1`,
  `[::1]`.
- Where an answer leads to another server, that one must not be more internal than the one that was
  configured: public, then private, then loopback.

What `allowed.addresses` lists is open to all of them.
"""

from __future__ import annotations

import enum
import socket
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Final

from penstock_connector._errors import ConfigError

_Address = IPv4Address | IPv6Address
_Place = tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]

_METADATA: Final = frozenset(
    map(ip_address, ("fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "168.63.129.16"))
)
"""Where clouds tell a machine its secrets: Amazon's and Google's over IPv6, Alibaba's, Azure's. All
others are link-local."""

_THIS_HOST: Final = IPv4Network("0.0.0.0/8")
"""Linux connects these to itself."""

_WITH_IPV4: Final = (IPv6Network("::/96"), IPv6Network("64:ff9b::/96"))
"""Networks whose last four bytes are an IPv4 address: compatible ones, and those of NAT64."""

_NO_HOST: Final = frozenset(" /@?#,\\")
"""What is in URLs, and in no name of a host."""


class Zone(enum.IntEnum):
    """How far inside an address is; a larger one is more internal."""

    PUBLIC = 0
    PRIVATE = 1
    LOOPBACK = 2
    LINK_LOCAL = 3


_WORDS: Final = {
    Zone.PUBLIC: "a public address",
    Zone.PRIVATE: "an address of a private network",
    Zone.LOOPBACK: "an address of the worker's own machine",
    Zone.LINK_LOCAL: "a link-local or metadata address",
}


def zone_of(address: str) -> Zone:
    """Return the zone of an IP address; an IPv4 address inside of an IPv6 one counts as itself."""
    found = _plain(address)
    if found.is_link_local or found in _METADATA:
        return Zone.LINK_LOCAL
    if found.is_loopback or found.is_unspecified or found in _THIS_HOST:
        return Zone.LOOPBACK
    return Zone.PUBLIC if found.is_global else Zone.PRIVATE


def names_loopback(host: str) -> bool:
    """Return whether a host is plainly loopback: no decimal, hexadecimal or short spelling is."""
    if host.lower() == "localhost":
        return True
    with suppress(ValueError):
        found = ip_address(host)
        return found == _plain(host) and found.is_loopback
    return False


class AddressPolicy:
    """Opens sockets where they may lead.

    Args:
        allowed: Hosts, addresses and networks that are open whatever they are.
        code: Code of a refusal.
        key: The configuration key that `allowed` is from.

    Raises:
        ConfigError: `config.invalid_value`.
    """

    def __init__(
        self,
        allowed: Iterable[str] = (),
        *,
        code: str = "net.address_refused",
        key: str = "allowed.addresses",
    ) -> None:
        self._code, self._key = code, key
        self._networks: list[IPv4Network | IPv6Network] = []
        self._hosts: set[str] = set()
        for item in allowed:
            self._allow(item)

    def connect(
        self, host: str, port: int, timeout: float, *, configured: bool = True, led_from: str = ""
    ) -> socket.socket:
        """Return a socket that is connected.

        Args:
            host: Name or address.
            port: Port.
            timeout: Seconds for each address of the host.
            configured: The configuration names this host and port; else a row or a server does.
            led_from: The configured host whose answer leads here.

        Raises:
            ConfigError: All addresses of the host are refused.
            OSError: There is no such host, or none that answers.
        """
        failure: Exception = OSError(f"{host} has no address")
        for family, place in self._places(host, port, configured=configured, led_from=led_from):
            try:
                return _opened(family, place, timeout)
            except OSError as error:
                failure = error
        raise failure

    def addresses(
        self, host: str, port: int, *, configured: bool = True, led_from: str = ""
    ) -> list[str]:
        """Return the addresses of a host that are open: for a library that opens sockets itself,
        and must be given these instead of the name. As `connect`.
        """
        places = self._places(host, port, configured=configured, led_from=led_from)
        return [_scoped(place) for _, place in places]

    def require(self, host: str, port: int, *, configured: bool = True, led_from: str = "") -> None:
        """Refuse a host that a proxy is asked for, as far as its name means something here: the
        proxy looks names up itself, so one refused address is enough. As `connect`.
        """
        inmost = self._inmost(host, configured=configured, led_from=led_from)
        with suppress(OSError):
            for _, place in _resolved(host, port):
                address = str(place[0])
                if zone_of(address) > inmost and not self._is_open(host, address):
                    raise self._refusal(host, address, zone_of(address), led_from)

    def _places(
        self, host: str, port: int, *, configured: bool, led_from: str
    ) -> list[tuple[socket.AddressFamily, _Place]]:
        """Return where a host is, without what is refused."""
        inmost = self._inmost(host, configured=configured, led_from=led_from)
        places, refused = [], ""
        for family, place in _resolved(host, port):
            address = str(place[0])
            if zone_of(address) > inmost and not self._is_open(host, address):
                refused = address
            else:
                places.append((family, place))
        if refused and not places:
            raise self._refusal(host, refused, zone_of(refused), led_from)
        return places

    def _allow(self, item: str) -> None:
        try:
            self._networks.append(ip_network(item.strip("[]"), strict=False))
        except ValueError:
            if "*" in item or _NO_HOST & set(item):
                raise ConfigError(
                    "config.invalid_value",
                    f"`{self._key}` has {item!r}, which is no host, address or network",
                    fix="List hosts, addresses and networks, for instance "
                    "`localhost, 169.254.10.0/24`.",
                    config_path=self._key,
                ) from None
            self._hosts.add(item.lower())

    def _inmost(self, host: str, *, configured: bool, led_from: str) -> Zone:
        """Return the most internal zone that is open without a word of the user."""
        if configured and names_loopback(host):
            return Zone.LOOPBACK
        if not led_from:
            return Zone.PRIVATE
        zones = [Zone.PRIVATE]
        try:
            zones += [zone_of(str(place[0])) for _, place in _resolved(led_from, 0)]
        except OSError:
            return Zone.PUBLIC
        return min(zones)

    def _is_open(self, host: str, address: str) -> bool:
        found = _plain(address)
        return host.lower() in self._hosts or any(found in network for network in self._networks)

    def _refusal(self, host: str, address: str, zone: Zone, led_from: str) -> ConfigError:
        plain = _plain(address)
        why = f", where an answer of {led_from} leads" if led_from else ""
        return ConfigError(
            self._code,
            f"{host} is {plain}, {_WORDS[zone]}{why}: connectors are not led there",
            fix=f"Set `{self._key}={plain}`, if it is meant.",
            config_path=self._key,
            suggestion=str(plain),
        )


def _plain(address: str) -> _Address:
    """Return an address without its scope; the IPv4 address that an IPv6 one means."""
    found = ip_address(address.partition("%")[0])
    if isinstance(found, IPv4Address):
        return found
    inner = found.ipv4_mapped or found.sixtofour
    if inner is None and any(found in network for network in _WITH_IPV4) and int(found) > 1:
        inner = IPv4Address(int(found) & 0xFFFFFFFF)
    return inner or found


def _resolved(host: str, port: int) -> list[tuple[socket.AddressFamily, _Place]]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(family, place) for family, _, _, _, place in found]


def _scoped(place: _Place) -> str:
    """Return an address; of a link-local one, with the interface."""
    return f"{place[0]}%{place[3]}" if len(place) == 4 and place[3] else str(place[0])


def _opened(family: socket.AddressFamily, place: _Place, timeout: float) -> socket.socket:
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.settimeout(timeout)
        opened.connect(place)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        opened.close()
        raise
    return opened
