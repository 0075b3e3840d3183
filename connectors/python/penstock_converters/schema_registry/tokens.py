"""Tokens for a schema registry, which an issuer gives to a client with a secret (OAuth)."""

from __future__ import annotations

import base64
import json
import math
import ssl
import time
import urllib.parse
from dataclasses import dataclass, field
from typing import Any, Final

import httpcore

from penstock_converters import RegistryAuthError
from penstock_converters.schema_registry.http import AnswerTooLongError, Timeouts, exchange, text_of

_PART_OF_LIFE: Final = 0.8
"""Part of its life for which a token is used, as by Confluent's clients."""


@dataclass(frozen=True, slots=True)
class TokenOptions:
    """Who gives tokens, and to whom.

    Attributes:
        url: Where.
        scope: What they are for; empty: the issuer decides.
        buffer_s: Seconds before the end of a token at which another one is got.
    """

    url: str
    client_id: str
    secret: str = field(repr=False)
    scope: str = ""
    buffer_s: float = 300.0


class TokenUnavailableError(Exception):
    """The issuer does not answer, or has an error of its own."""


class TokenSource:
    """Gets tokens, and keeps the newest one. Used by one thread."""

    def __init__(
        self, options: TokenOptions, timeouts: Timeouts, tls: ssl.SSLContext | None
    ) -> None:
        self._options, self._timeouts = options, timeouts
        self._pool = httpcore.ConnectionPool(
            ssl_context=tls, max_connections=1, max_keepalive_connections=0
        )
        self._token, self._usable_until = "", 0.0

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()

    def token(self) -> str:
        """Return a token.

        Raises:
            TokenUnavailableError: there is none now.
            RegistryAuthError: there is none for this client.
        """
        if time.monotonic() >= self._usable_until:
            token, life_s = self._fetch()
            self._usable_until = time.monotonic() + _usable_for(life_s, self._options.buffer_s)
            self._token = token
        return self._token

    def forget(self) -> None:
        """Get another token the next time: the registry refuses this one."""
        self._usable_until = 0.0

    def _fetch(self) -> tuple[str, float]:
        options = self._options
        login = base64.b64encode(f"{options.client_id}:{options.secret}".encode()).decode()
        form = {"grant_type": "client_credentials"} | (
            {"scope": options.scope} if options.scope else {}
        )
        headers = {
            "Accept": "application/json",
            "Authorization": f"Basic {login}",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        body = urllib.parse.urlencode(form).encode()
        where = f"the issuer of tokens, {options.url}"
        try:
            status, content = exchange(
                self._pool, "POST", options.url, headers, body, self._timeouts
            )
        except (httpcore.NetworkError, httpcore.TimeoutException) as error:
            why = str(error) or type(error).__name__
            raise TokenUnavailableError(f"{where}, does not answer: {why}") from None
        except (httpcore.ProtocolError, AnswerTooLongError):
            raise _refused(f"{where}, does not answer with a token") from None
        if status >= 500 or status in (408, 429):
            raise TokenUnavailableError(f"{where}, answers with status {status}")
        if status != 200:
            raise _refused(f"{where}, refuses the client (status {status}): {text_of(content)}")
        return _read_token(content, where)


def _read_token(content: bytes, where: str) -> tuple[str, float]:
    """Return a token, and the seconds until it ends."""
    try:
        answer = json.loads(content)
        token = answer["access_token"]
        if not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise TypeError
        life_s = _life_of(token, answer)
    except (ValueError, LookupError, TypeError, RecursionError):
        raise _refused(f"{where}, does not answer with a token") from None
    return token, life_s if math.isfinite(life_s) else 0.0


def _life_of(token: str, answer: dict[str, Any]) -> float:
    """Return the seconds until a token ends: as it says itself, else as the issuer says."""
    try:
        middle = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(middle + "=" * (-len(middle) % 4)))
        return float(claims["exp"]) - time.time()
    except (ValueError, LookupError, TypeError, RecursionError):
        return float(answer.get("expires_in") or 0)


def _usable_for(life_s: float, buffer_s: float) -> float:
    part = life_s * _PART_OF_LIFE
    return part if life_s < buffer_s else min(part, life_s - buffer_s)


def _refused(message: str) -> RegistryAuthError:
    return RegistryAuthError(
        "registry.not_authorized",
        message,
        "Check `bearer.auth.issuer.endpoint.url`, `bearer.auth.client.id`, "
        "`bearer.auth.client.secret` and `bearer.auth.scope`.",
    )
