"""Checks of every request: its rate, its site, its principal, and the role of the principal."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import ipaddress
import logging
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import urlsplit

from fastapi import Depends, Request

from penstock.gateway.access import passwords, users
from penstock.gateway.access.audit import READ_METHODS
from penstock.gateway.access.users import (
    ANY_CONNECTOR,
    Level,
    Principal,
    User,
    UsersFile,
    parse_grants,
)
from penstock.gateway.configs import REDACTED_VIEW, ConfigView
from penstock.gateway.listeners import Listener
from penstock.gateway.request_input import decode_name
from penstock.gateway.settings import CORS_METHODS
from penstock.model.connector import Connector
from penstock.model.errors import AuthError, ConfigError, RetriableError

if TYPE_CHECKING:
    from penstock.gateway.access.tokens import TokenVerifier

log = logging.getLogger(__name__)

MAX_SENDERS: Final = 10_000
"""Senders that are remembered (invariant 12). A forgotten sender starts with a full burst."""

BURST_S: Final = 10.0
"""Seconds whose requests a sender may send at once: tools send requests in bursts."""


class RateLimit:
    """A limit of requests a second for each sender, which is a principal or an address."""

    def __init__(self, per_second: float, now: Callable[[], float] = time.monotonic) -> None:
        """`per_second`: 0 for any number."""
        self._interval = 1 / per_second if per_second > 0 else 0.0
        self._now = now
        self._due: OrderedDict[str, float] = OrderedDict()

    def take(self, caller: str) -> None:
        """Count one request.

        Raises:
            RetriableError: `http.too_many`: the limit is reached; the request is not counted.
        """
        if not self._interval:
            return
        self.check(caller)
        self._due[caller] = max(self._due.get(caller, 0.0), self._now()) + self._interval
        self._due.move_to_end(caller)
        if len(self._due) > MAX_SENDERS:
            self._due.popitem(last=False)

    def refund(self, caller: str) -> None:
        """Undo one `take`."""
        if caller in self._due:
            self._due[caller] -= self._interval

    def check(self, caller: str) -> None:
        """Refuse a sender that has reached the limit.

        Raises:
            RetriableError: `http.too_many`.
        """
        wait = self._due.get(caller, 0.0) - self._now() - BURST_S + self._interval
        if self._interval and wait > 0:
            raise RetriableError(
                "http.too_many",
                "too many requests of one sender",
                fix=f"Send at most {1 / self._interval:g} requests a second. `Retry-After` has the "
                "seconds to wait.",
                retry_after_s=math.ceil(wait),
            )


ANY_ORIGIN: Final = "*"

_SAME_SITE: Final = frozenset({"", "same-origin", "none"})


def refuse_cross_site(headers: Mapping[str, str], origins: Collection[str] = ()) -> None:
    """Refuse a change that a page of another site requests, but for those of `origins`. Header
    names are in lower case.

    Raises:
        AuthError: `access.other_site`.
    """
    origin, host = headers.get("origin", ""), headers.get("host", "")
    if origin and (origin in origins or ANY_ORIGIN in origins):
        return
    same_site = not origin or urlsplit(origin).netloc.lower() == host.lower()
    if not same_site or headers.get("sec-fetch-site", "") not in _SAME_SITE:
        raise AuthError(
            "access.other_site",
            f"a web page of {origin[:200] or 'another site'} sent a request that changes something",
            fix="Send it from a program, or from a page with the same host name as the gateway; or "
            "add the origin to `access.control.allow.origin`.",
        )


def refuse_browsers(headers: Mapping[str, str]) -> None:
    """Refuse a GET that changes something, from a browser: a link or an image of any page sends it,
    and only some browsers name the page.

    Raises:
        AuthError: `access.other_site`.
    """
    is_browser = headers.get("user-agent", "").startswith("Mozilla/")
    if is_browser and headers.get("sec-fetch-site") != "same-origin":
        raise AuthError(
            "access.other_site",
            "a browser sent a GET request that changes something",
            fix="Send it from a program such as curl.",
        )


def refuse_foreign_hosts(headers: Mapping[str, str], hosts: Collection[str] = ()) -> None:
    """Refuse a request whose Host header is neither a loopback name nor one of `hosts` (DNS
    rebinding).

    Raises:
        AuthError: `access.other_name`.
    """
    host = headers.get("host", "")
    if not is_loopback(host) and _host_name(host) not in hosts:
        raise AuthError(
            "access.other_name",
            f"the Host header is {host[:200]!r}, expected localhost: the gateway has no users",
            fix="Use 127.0.0.1 or localhost; or add the name to `access.hosts`; or set "
            "`auth.users`; or `auth.open=true` to allow every caller everything.",
        )


def _host_name(host: str) -> str:
    """Return the name of HOST or HOST:PORT, in lower case."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def is_loopback(host: str) -> bool:
    """Return whether HOST or HOST:PORT is `localhost` or a loopback address."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


PASSWORD_CACHE_TTL_S: Final = 60.0
"""Seconds that a correct password is accepted without computing its hash again. A hash takes 50 ms:
a tool that sends a request a second would use a twentieth of a core."""

MAX_CACHED_PASSWORDS: Final = 1000

MAX_CONCURRENT_HASHES: Final = 1
"""Password hashes that are computed at once. Each uses a core for 50 ms."""

ANY_CALLER: Final = Principal(
    "anybody", parse_grants([{"role": "admin", "connectors": ANY_CONNECTOR}])
)
"""The principal of all callers of a gateway without users, which only this machine reaches."""


class Guard:
    """Authenticates callers by password or token. Without users and tokens it accepts everyone."""

    def __init__(
        self,
        users: Mapping[str, User] | UsersFile | None = None,
        tokens: TokenVerifier | None = None,
        *,
        requests: RateLimit | None = None,
        mistakes: RateLimit | None = None,
        local: bool = False,
        origins: Collection[str] = (),
        methods: Collection[str] = (),
        hosts: Collection[str] = (),
        shows_secrets: bool = False,
    ) -> None:
        """`requests` bounds the requests of each principal, `mistakes` the wrong passwords of an
        address, each of which takes 50 ms. A cached password is accepted also beyond it. `local`:
        only this machine can reach the gateway, and callers are not authenticated; it may call it
        by `hosts`, too. Web pages of `origins` may call it like programs, with `methods`.
        `shows_secrets`: those who may edit a connector see its secrets.
        """
        self._users, self._tokens = users, tokens
        self._requests, self._mistakes = requests or RateLimit(0), mistakes or RateLimit(0)
        self.local, self.origins, self.methods = local, frozenset(origins), tuple(methods)
        self.hosts, self.shows_secrets = frozenset(host.lower() for host in hosts), shows_secrets
        self._hash_slots = asyncio.Semaphore(MAX_CONCURRENT_HASHES)
        self._cache: dict[bytes, tuple[float, Principal]] = {}

    async def admit(self, header: str | None, address: str) -> Principal:
        """Authenticate the sender of a request and count the request.

        Raises:
            PenstockError: as `authenticate`; `http.too_many`.
        """
        principal = await self.authenticate(header, address)
        self._requests.take(address if principal is ANY_CALLER else principal.name)
        return principal

    async def authenticate(self, header: str | None, address: str) -> Principal:
        """Return the principal of an `Authorization` header.

        Raises:
            PenstockError: `access.unauthenticated`, `access.token`, `http.too_many`.
        """
        if self._users is None and self._tokens is None:
            return ANY_CALLER
        scheme, _, credentials = (header or "").partition(" ")
        if scheme.lower() == "basic" and self._users is not None:
            return await self._by_password(self._users, credentials.strip(), address)
        if scheme.lower() == "bearer" and self._tokens is not None:
            return await self._tokens.identify(credentials.strip())
        raise _unauthenticated()

    async def close(self) -> None:
        """Close the connections to the OpenID provider."""
        if self._tokens is not None:
            await self._tokens.close()

    def schemes(self) -> str:
        """Return the value of the header `WWW-Authenticate` of a 401."""
        found = []
        if self._users is not None:
            found.append('Basic realm="penstock", charset="UTF-8"')
        if self._tokens is not None:
            found.append('Bearer realm="penstock"')
        return ", ".join(found)

    async def _by_password(
        self, known_users: Mapping[str, User] | UsersFile, credentials: str, address: str
    ) -> Principal:
        try:
            name, sign, password = (
                base64.b64decode(credentials, validate=True).decode().partition(":")
            )
        except ValueError:  # not base64, or not UTF-8
            raise _unauthenticated() from None
        user = known_users.get(name)
        stored = user.password if user else _UNKNOWN_USER_HASH
        digest = hashlib.sha256(f"{stored}\0{name}\0{password}".encode()).digest()
        known = self._cache.get(digest)
        if known and known[0] > time.monotonic():
            return known[1]
        self._mistakes.take(address)  # before the check: many may be checked at once
        async with self._hash_slots:
            # also for an unknown user: the duration must not reveal which users exist
            matched = await asyncio.to_thread(passwords.verify_password, password, stored)
        if user is None or not matched or not sign:
            raise _unauthenticated()
        self._mistakes.refund(address)
        if len(self._cache) >= MAX_CACHED_PASSWORDS:
            self._cache.clear()
        self._cache[digest] = (time.monotonic() + PASSWORD_CACHE_TTL_S, user.principal)
        return user.principal


_UNKNOWN_USER_HASH: Final = passwords.hash_password("no user has this password")


async def authorize(request: Request) -> None:
    """Authenticate and authorize a request. A dependency of every route.

    Raises:
        PenstockError: `access.unauthenticated`, `access.token`, `access.denied`, `http.too_many`,
            `access.other_site`, `access.other_name`.
    """
    method = "GET" if request.method == "HEAD" else request.method
    route = f"{method} {request.scope['route'].path}"
    if route in users.OPEN_ROUTES:
        return
    guard: Guard = request.app.state.guard
    if request.app.state.is_change(request.method, request.scope["path"]):
        refuse_cross_site(request.headers, guard.origins)
        if request.method in READ_METHODS:
            refuse_browsers(request.headers)
    if guard.local:
        refuse_foreign_hosts(request.headers, guard.hosts)
    address = request.client.host if request.client else ""
    principal = await guard.admit(request.headers.get("authorization"), address)
    request.state.principal = principal
    if "connector" in request.path_params:
        request.state.connector = decode_name(request.path_params["connector"])
    needed = request.app.state.levels.get(route)
    if needed is None or _level_for(principal, needed, request.path_params) < needed:
        raise access_denied(principal, route)


def _level_for(principal: Principal, needed: Level, names: Mapping[str, str]) -> Level:
    if "connector" in names:
        return principal.level(decode_name(names["connector"]))
    if needed is Level.ADMIN:
        return principal.level()
    return principal.highest_level()


def _get_caller(request: Request) -> Principal:
    principal: Principal = request.state.principal
    return principal


Caller = Annotated[Principal, Depends(_get_caller)]
"""A route parameter: the principal that sent the request."""


def require_level(request: Request, connector: str, level: Level) -> None:
    """Refuse a caller without a level for a connector that the body names.

    The audit log has the name of the connector in both cases.

    Raises:
        AuthError: `access.denied`.
    """
    principal, request.state.connector = _get_caller(request), connector
    if principal.level(connector) < level:
        raise access_denied(principal, connector)


def view_configs(request: Request, connectors: Iterable[Connector]) -> ConfigView:
    """Return how the caller sees the configurations of these connectors.

    Raises:
        ConfigError: `config.slow_pattern`.
    """
    guard: Guard = request.app.state.guard
    if not guard.shows_secrets:
        return REDACTED_VIEW
    names = {connector.name for connector in connectors}
    return ConfigView(_get_caller(request).filter_names(names, Level.EDITOR))


def access_denied(principal: Principal, what: str) -> AuthError:
    """Return the error for a route or a connector that needs a higher role."""
    return AuthError(
        "access.denied",
        f"{principal.name} has no role for {what[:300]}",
        fix="Request a role from the administrator of the gateway.",
    )


def _unauthenticated() -> AuthError:
    return AuthError(
        "access.unauthenticated",
        "the request has no valid credentials",
        fix="Send an Authorization header with the name and password of a user, or with a token.",
    )


def guard_from_settings(values: Mapping[str, Any], listeners: Iterable[Listener]) -> Guard:
    """Return the guard that the keys of a gateway describe.

    Raises:
        ConfigError: `access.open`: other machines reach a gateway without users; `access.file`.
    """
    file, issuer = values["auth.users"], values["auth.oidc.issuer"]
    users = UsersFile(Path(file)) if file else None
    tokens = None
    if issuer:
        # httpx and PyJWT are loaded only when tokens are accepted
        from penstock.gateway.access.tokens import OidcProvider, TokenVerifier  # noqa: PLC0415

        tokens = TokenVerifier(
            OidcProvider(
                issuer,
                values["auth.oidc.audience"],
                values["auth.oidc.claim"],
                values["auth.oidc.name"],
            )
        )
    reached = [listener.address for listener in listeners if not is_loopback(listener.address)]
    if users is None and tokens is None and reached and not values["auth.open"]:
        raise ConfigError(
            "access.open",
            f"other machines reach the listener {reached[0]}, but the gateway has no users",
            fix="Set `auth.users` or `auth.oidc.issuer`; or `auth.open=true` to allow every caller "
            "everything.",
            config_path="auth.users",
        )
    local = users is None and tokens is None and not reached and not values["auth.open"]
    for key, why in _ineffective_keys(values, local=local):
        log.warning("`%s` has no effect: %s", key, why)
    if values["access.show.secrets"] and users is None and tokens is None:
        log.warning(
            "`access.show.secrets` shows the secrets of all connectors to every caller: the "
            "gateway has no users; set `auth.users` or `auth.oidc.issuer`"
        )
    return Guard(
        users,
        tokens,
        requests=RateLimit(values["rate.requests"]),
        mistakes=RateLimit(values["rate.mistakes"]),
        local=local,
        origins=values["access.control.allow.origin"],
        methods=values["access.control.allow.methods"],
        hosts=values["access.hosts"],
        shows_secrets=values["access.show.secrets"],
    )


def _ineffective_keys(values: Mapping[str, Any], *, local: bool) -> Iterator[tuple[str, str]]:
    if values["access.hosts"] and not local:
        yield "access.hosts", "a gateway with users, or that is open, answers under any name"
    origins, methods = values["access.control.allow.origin"], values["access.control.allow.methods"]
    if methods != CORS_METHODS and not origins:
        why = "without `access.control.allow.origin`, no page of another site may call the API"
        yield "access.control.allow.methods", why
