"""Bearer tokens of an OpenID provider: signed by a key that it publishes, for us, in time."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx
import jwt

from penstock.gateway.access.users import Person, grants_of
from penstock.model.errors import AuthError, ConfigError, RetriableError

log = logging.getLogger(__name__)

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures with a public key. Never `none`, and never one with a shared secret: whoever knows the
public key could make it."""

KEPT: Final = 300.0
"""Seconds that the provider's keys are kept. Longer trusts a key that was withdrawn."""

LONGEST: Final = 3600.0
"""Seconds that keys count while the provider is away: a restart of it must lock nobody out."""

AGAIN: Final = 10.0
"""Least seconds between two looks for a key that is not known: a flood of made-up tokens must not
become a flood of requests at the provider."""

WITHIN: Final = 5.0
MOST: Final = 1 << 20
"""Seconds and bytes of an answer of the provider (invariant 12)."""

LEEWAY: Final = 30.0
"""Seconds that clocks may differ."""


@dataclass(frozen=True, slots=True)
class Provider:
    """An OpenID provider. `claim` has the grants of a person: a list, as the file of users has
    them; `name` the claim by which a person is called.
    """

    issuer: str
    audience: str
    claim: str = "penstock"
    name: str = "sub"


class Tokens:
    """Recognizes people by their tokens. Keeps the provider's keys for a while."""

    def __init__(self, provider: Provider, client: httpx.AsyncClient | None = None) -> None:
        """`client` is closed by `close`."""
        self._provider = provider
        self._client = client or httpx.AsyncClient(timeout=WITHIN, follow_redirects=False)
        self._keys: Mapping[str, Any] = {}
        self._read_at = self._tried_at = -LONGEST
        self._away: RetriableError | None = None
        self._reading = asyncio.Lock()

    async def close(self) -> None:
        """Let go of connections."""
        await self._client.aclose()

    async def person(self, token: str) -> Person:
        """Return whose token it is.

        Raises:
            AuthError: `access.token`: it is not one, or not for us, or its time is over.
            RetriableError: `access.provider`: the provider's keys cannot be read.
        """
        try:
            head = jwt.get_unverified_header(token)
            key = await self._key(str(head.get("kid", "")))
            claims = jwt.decode(
                token,
                key,
                algorithms=list(ALGORITHMS),
                audience=self._provider.audience,
                issuer=self._provider.issuer,
                leeway=LEEWAY,
                options={"require": ["exp", "iss", "aud"]},
            )
        except (jwt.PyJWTError, TypeError, ValueError) as error:
            # TypeError: an algorithm that is not the key's
            raise _refused(type(error).__name__) from None
        return self._person(claims)

    def _person(self, claims: Mapping[str, Any]) -> Person:
        granted = claims.get(self._provider.claim, [])
        name = claims.get(self._provider.name)
        if not isinstance(granted, list) or not isinstance(name, str) or not name:
            raise _refused(f"`{self._provider.claim}` or `{self._provider.name}` is not there")
        try:
            return Person(name, grants_of(granted))
        except ConfigError as error:
            raise _refused(error.diagnostic.message) from None

    async def _key(self, kid: str) -> Any:
        if kid in self._keys and time.monotonic() - self._read_at < KEPT:
            return self._keys[kid]
        async with self._reading:
            await self._renew(kid)
        if kid not in self._keys:
            raise self._away or _refused("it was signed by a key that the provider does not have")
        return self._keys[kid]

    async def _renew(self, kid: str) -> None:
        """Read the keys anew, if that is due. While the provider is away, those that are known go
        on to count for a while.
        """
        now = time.monotonic()
        known = kid in self._keys and now - self._read_at < KEPT
        if known or now - self._tried_at < AGAIN:
            return
        self._tried_at = now
        try:
            async with asyncio.timeout(WITHIN):
                self._keys, self._read_at, self._away = await self._read(), now, None
        except (RetriableError, TimeoutError) as error:
            self._away = _provider_away(error)
            if now - self._read_at >= LONGEST:
                self._keys = {}
            log.warning("%s", self._away)

    async def _read(self) -> dict[str, Any]:
        issuer = self._provider.issuer.rstrip("/")
        about = await self._json(f"{issuer}/.well-known/openid-configuration")
        listed = await self._json(str(about.get("jwks_uri", "")))
        keys = {}
        for one in listed.get("keys", []):
            try:
                keys[str(one.get("kid", ""))] = jwt.PyJWK(one).key
            except jwt.PyJWTError:
                continue  # one of a kind that we do not take
        return keys

    async def _json(self, url: str) -> Mapping[str, Any]:
        try:
            async with self._client.stream("GET", url) as answer:
                answer.raise_for_status()
                found = bytearray()
                async for part in answer.aiter_bytes():
                    found += part
                    if len(found) > MOST:
                        raise ValueError("too large")
            document = json.loads(found)
        except (httpx.HTTPError, ValueError, RecursionError) as error:
            raise _provider_away(error) from None
        return document if isinstance(document, dict) else {}


def _provider_away(error: Exception) -> RetriableError:
    if isinstance(error, RetriableError):
        return error
    return RetriableError(
        "access.provider",
        f"the OpenID provider does not tell its keys: {type(error).__name__}",
        fix="See whether the gateway reaches `auth.oidc.issuer`.",
        retry_after=5.0,
    )


def _refused(why: str) -> AuthError:
    return AuthError(
        "access.token", f"the token is refused: {why}", fix="Get a new one from your provider."
    )
