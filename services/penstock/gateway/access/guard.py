"""Asks of every request who sends it, and whether that person may."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import Depends, Request

from penstock.gateway.access import passwords, users
from penstock.gateway.access.request_limits import (
    Rate,
    of_this_machine,
    refuse_other_names,
    refuse_other_sites,
)
from penstock.gateway.access.users import EVERY, FileOfUsers, Level, Person, User, grants_of
from penstock.gateway.paths import decoded
from penstock.gateway.server.listeners import Place
from penstock.model.errors import AuthError, ConfigError

if TYPE_CHECKING:
    from penstock.gateway.access.tokens import Tokens


KNOWN_FOR: Final = 60.0
"""Seconds that a password which matched is known again without its hash being computed: 50 ms for
each request of a tool that asks once a second would be a twentieth of a core."""

MOST_KNOWN: Final = 1000

HASHED_AT_ONCE: Final = 1
"""Passwords whose hashes are computed at once: each has a core for 50 ms."""

ANYBODY: Final = Person("anybody", grants_of([{"role": "admin", "connectors": EVERY}]))
"""Who asks where nothing says who may: everybody may everything, on an address that only this
machine reaches."""


class Guard:
    """Recognizes people: by a password, by a token; everybody when it has neither."""

    def __init__(
        self,
        users: Mapping[str, User] | FileOfUsers | None = None,
        tokens: Tokens | None = None,
        *,
        requests: Rate | None = None,
        mistakes: Rate | None = None,
        local: bool = False,
    ) -> None:
        """`requests` bounds those of each person; `mistakes` the wrong passwords of an address: to
        see that one is wrong takes 50 ms. Who is known is let in all the same. `local`: it listens
        to this machine alone, and nobody is asked who he is.
        """
        self._users, self._tokens = users, tokens
        self._requests, self._mistakes = requests or Rate(0), mistakes or Rate(0)
        self.local = local
        self._hashing = asyncio.Semaphore(HASHED_AT_ONCE)
        self._known: dict[bytes, tuple[float, Person]] = {}

    async def admitted(self, header: str | None, address: str) -> Person:
        """Return who sends a request from an address.

        Raises:
            PenstockError: as `person`; `http.too_many`.
        """
        person = await self.person(header, address)
        self._requests.take(address if person is ANYBODY else person.name)
        return person

    async def person(self, header: str | None, address: str) -> Person:
        """Return who sends an `Authorization` header.

        Raises:
            PenstockError: `access.unauthenticated`, `access.token`, `http.too_many`.
        """
        if self._users is None and self._tokens is None:
            return ANYBODY
        scheme, _, said = (header or "").partition(" ")
        if scheme.lower() == "basic" and self._users is not None:
            return await self._by_password(said.strip(), address)
        if scheme.lower() == "bearer" and self._tokens is not None:
            return await self._tokens.person(said.strip())
        raise _unknown()

    async def close(self) -> None:
        """Let go of connections."""
        if self._tokens is not None:
            await self._tokens.close()

    def schemes(self) -> str:
        """Return what a 401 asks for."""
        found = []
        if self._users is not None:
            found.append('Basic realm="penstock", charset="UTF-8"')
        if self._tokens is not None:
            found.append('Bearer realm="penstock"')
        return ", ".join(found)

    async def _by_password(self, said: str, address: str) -> Person:
        assert self._users is not None  # noqa: S101 - asked above
        try:
            name, sign, password = base64.b64decode(said, validate=True).decode().partition(":")
        except ValueError:  # no base64, no ASCII, no UTF-8
            raise _unknown() from None
        user = self._users.get(name)
        stored = user.password if user else _NOBODYS
        digest = hashlib.sha256(f"{stored}\0{name}\0{password}".encode()).digest()
        known = self._known.get(digest)
        if known and known[0] > time.monotonic():
            return known[1]
        self._mistakes.take(address)  # before it is known: many may be on their way at once
        async with self._hashing:
            # also where there is no such user: the time that it takes must not tell
            matched = await asyncio.to_thread(passwords.matches, password, stored)
        if user is None or not matched or not sign:
            raise _unknown()
        self._mistakes.give_back(address)
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        self._known[digest] = (time.monotonic() + KNOWN_FOR, user.person)
        return user.person


_NOBODYS: Final = passwords.hashed("nobody has this password")


async def guard(request: Request) -> None:
    """Let a request through, or refuse it. A dependency of every route.

    Raises:
        PenstockError: `access.unauthenticated`, `access.token`, `access.denied`, `http.too_many`,
            `access.other_site`, `access.other_name`.
    """
    method = "GET" if request.method == "HEAD" else request.method
    route = f"{method} {request.scope['route'].path}"
    if route in users.OPEN:
        return
    asked: Guard = request.app.state.guard
    refuse_other_sites(request.method, request.headers)
    if asked.local:
        refuse_other_names(request.headers)
    address = request.client.host if request.client else ""
    person = await asked.admitted(request.headers.get("authorization"), address)
    request.state.person = person
    if "connector" in request.path_params:
        request.state.connector = decoded(request.path_params["connector"])
    needed = users.NEEDED.get(route)
    if needed is None or _level(person, needed, request.path_params) < needed:
        raise denied(person, route)


def _level(person: Person, needed: Level, names: Mapping[str, str]) -> Level:
    if "connector" in names:
        return person.level(decoded(names["connector"]))
    if needed is Level.ADMIN:
        return person.level()
    return person.highest()


def _person(request: Request) -> Person:
    person: Person = request.state.person
    return person


Sender = Annotated[Person, Depends(_person)]
"""Who sends a request, as a parameter of a route."""


def require(request: Request, connector: str, level: Level) -> None:
    """Refuse what the sender may not do with a connector that the body has named. The audit names
    it, whoever it was.

    Raises:
        AuthError: `access.denied`.
    """
    person, request.state.connector = _person(request), connector
    if person.level(connector) < level:
        raise denied(person, connector)


def denied(person: Person, what: str) -> AuthError:
    """Return the error for what somebody may not do."""
    return AuthError(
        "access.denied",
        f"{person.name} may not: {what[:300]}",
        fix="Ask whoever grants roles for more.",
    )


def _unknown() -> AuthError:
    return AuthError(
        "access.unauthenticated",
        "the request does not say who sends it, or not so that it can be believed",
        fix="Send an Authorization header: a user's name and password, or a token.",
    )


def guard_of(values: Mapping[str, Any], places: Iterable[Place]) -> Guard:
    """Return who asks of requests who sends them.

    Raises:
        ConfigError: `access.open`: nobody asks, and others than this machine may send requests;
            `access.file`.
    """
    file, issuer = values["auth.users"], values["auth.oidc.issuer"]
    users = FileOfUsers(Path(file)) if file else None
    tokens = None
    if issuer:
        # only who takes tokens loads what checks them
        from penstock.gateway.access.tokens import Provider, Tokens  # noqa: PLC0415

        tokens = Tokens(
            Provider(
                issuer,
                values["auth.oidc.audience"],
                values["auth.oidc.claim"],
                values["auth.oidc.name"],
            )
        )
    reached = [place.address for place in places if not of_this_machine(place.address)]
    if users is None and tokens is None and reached and not values["auth.open"]:
        raise ConfigError(
            "access.open",
            f"whoever reaches {reached[0]} may do everything: nothing says who may what",
            fix="Set `auth.users` or `auth.oidc.issuer`; or `auth.open=true` where that is meant.",
            config_path="auth.users",
        )
    return Guard(
        users,
        tokens,
        requests=Rate(values["rate.requests"]),
        mistakes=Rate(values["rate.mistakes"]),
        local=users is None and tokens is None and not reached and not values["auth.open"],
    )
