"""Bearer tokens of an OpenID provider. Signature, audience, issuer and expiry are verified."""

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

from penstock.gateway.access.users import Principal, parse_grants
from penstock.model.errors import AuthError, ConfigError, RetriableError

log = logging.getLogger(__name__)

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures with a public key. Not `none`, and none with a shared secret: a caller that knows the
public key could sign with it."""

KEYS_TTL_S: Final = 300.0
"""Seconds that the keys of the provider are cached. A withdrawn key is accepted as long."""

MAX_STALE_KEYS_S: Final = 3600.0
"""Seconds that cached keys are valid while the provider is unavailable, for example restarts."""

MIN_REFRESH_INTERVAL_S: Final = 10.0
"""Seconds between two fetches of keys because of an unknown key: a flood of forged tokens must not
become a flood of requests to the provider."""

PROVIDER_TIMEOUT_S: Final = 5.0
MAX_RESPONSE_BYTES: Final = 1 << 20
"""Seconds and bytes of a response of the provider (invariant 12)."""

CLOCK_SKEW_S: Final = 30.0
"""Seconds that the clocks of the provider and the gateway may differ."""


@dataclass(frozen=True, slots=True)
class OidcProvider:
    """An OpenID provider.

    `claim` is the claim with the grants of a user: a list as in the file of users. `name` is the
    claim with the name of the user.
    """

    issuer: str
    audience: str
    claim: str = "penstock"
    name: str = "sub"


class TokenVerifier:
    """Verifies tokens. Caches the keys of the provider."""

    def __init__(self, provider: OidcProvider, client: httpx.AsyncClient | None = None) -> None:
        """`client` is closed by `close`."""
        self._provider = provider
        self._client = client or httpx.AsyncClient(
            timeout=PROVIDER_TIMEOUT_S, follow_redirects=False
        )
        self._keys: Mapping[str, Any] = {}
        self._read_at = self._tried_at = -MAX_STALE_KEYS_S
        self._provider_error: RetriableError | None = None
        self._refresh_lock = asyncio.Lock()

    async def close(self) -> None:
        """Close the connections to the provider."""
        await self._client.aclose()

    async def identify(self, token: str) -> Principal:
        """Return the principal of a token.

        Raises:
            AuthError: `access.token`: it is invalid, expired, or for another audience.
            RetriableError: `access.provider`: the keys of the provider cannot be fetched.
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
                leeway=CLOCK_SKEW_S,
                options={"require": ["exp", "iss", "aud"]},
            )
        except (jwt.PyJWTError, TypeError, ValueError) as error:
            # TypeError: the algorithm does not fit the key
            raise _token_refused(type(error).__name__) from None
        return self._person_of(claims)

    def _person_of(self, claims: Mapping[str, Any]) -> Principal:
        granted = claims.get(self._provider.claim, [])
        name = claims.get(self._provider.name)
        if not isinstance(granted, list) or not isinstance(name, str) or not name:
            raise _token_refused(
                f"the claim `{self._provider.claim}` or `{self._provider.name}` is missing"
            )
        try:
            return Principal(name, parse_grants(granted))
        except ConfigError as error:
            raise _token_refused(error.diagnostic.message) from None

    async def _key(self, kid: str) -> Any:
        if kid in self._keys and time.monotonic() - self._read_at < KEYS_TTL_S:
            return self._keys[kid]
        async with self._refresh_lock:
            await self._refresh_keys(kid)
        if kid not in self._keys:
            raise self._provider_error or _token_refused(
                "the provider does not have the key of its signature"
            )
        return self._keys[kid]

    async def _refresh_keys(self, kid: str) -> None:
        """Fetch the keys if they are expired or do not have `kid`.

        While the provider is unavailable, cached keys stay valid for MAX_STALE_KEYS_S.
        """
        now = time.monotonic()
        known = kid in self._keys and now - self._read_at < KEYS_TTL_S
        if known or now - self._tried_at < MIN_REFRESH_INTERVAL_S:
            return
        self._tried_at = now
        try:
            async with asyncio.timeout(PROVIDER_TIMEOUT_S):
                self._keys, self._read_at, self._provider_error = (
                    await self._fetch_keys(),
                    now,
                    None,
                )
        except (RetriableError, TimeoutError) as error:
            self._provider_error = _provider_unavailable(error)
            if now - self._read_at >= MAX_STALE_KEYS_S:
                self._keys = {}
            log.warning("%s", self._provider_error)

    async def _fetch_keys(self) -> dict[str, Any]:
        issuer = self._provider.issuer.rstrip("/")
        about = await self._fetch_json(f"{issuer}/.well-known/openid-configuration")
        listed = await self._fetch_json(str(about.get("jwks_uri", "")))
        keys = {}
        for one in listed.get("keys", []):
            try:
                keys[str(one.get("kid", ""))] = jwt.PyJWK(one).key
            except jwt.PyJWTError:
                continue  # a key type that is not supported
        return keys

    async def _fetch_json(self, url: str) -> Mapping[str, Any]:
        try:
            async with self._client.stream("GET", url) as answer:
                answer.raise_for_status()
                found = bytearray()
                async for part in answer.aiter_bytes():
                    found += part
                    if len(found) > MAX_RESPONSE_BYTES:
                        raise ValueError("too large")
            document = json.loads(found)
        except (httpx.HTTPError, ValueError, RecursionError) as error:
            raise _provider_unavailable(error) from None
        return document if isinstance(document, dict) else {}


def _provider_unavailable(error: Exception) -> RetriableError:
    if isinstance(error, RetriableError):
        return error
    return RetriableError(
        "access.provider",
        f"cannot fetch the keys of the OpenID provider: {type(error).__name__}",
        fix="Check that the gateway can reach the URL of `auth.oidc.issuer`.",
        retry_after_s=5.0,
    )


def _token_refused(why: str) -> AuthError:
    return AuthError(
        "access.token",
        f"the token is refused: {why}",
        fix="Get a new token from the OpenID provider.",
    )
