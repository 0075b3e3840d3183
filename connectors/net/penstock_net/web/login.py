"""How a request says who asks; OAuth2 tokens, fetched when they are needed and kept."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote_plus, urlencode

from penstock_connector import AuthError, ConnectorError, RetriableError
from penstock_net.web.address import address_of, with_query
from penstock_net.web.client import Answer, Request
from penstock_net.web.failing import status_error
from penstock_net.web.headers import is_header
from penstock_net.web.keys import WebConfig
from penstock_net.web.retrying import retry_after

_EARLY: Final = 30.0
"""Seconds before its end at which a token is no longer used: a request that is on its way with it
must still find it valid."""

_LIFETIME: Final = 300.0
"""Seconds that a token counts as valid whose server says nothing about it."""

_FORM: Final = "application/x-www-form-urlencoded"
_UNAUTHORIZED: Final = 401


class Caller:
    """Asks as the configuration says: with its headers, its login, its hidden parameters.

    A status that is no success becomes an error, and no secret is in any of them.
    """

    def __init__(self, config: WebConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._config = config
        self._clock = clock
        self._home = config.home()
        self._client = config.client(self._home)
        self._headers = config.plain_headers()
        self._secret_headers = config.secret_headers()
        self._secret_query = config.secret_query()
        self._secrets = _shapes(config.secrets())
        self._token, self._token_until = "", 0.0

    def ask(
        self,
        url: str,
        *,
        method: str = "GET",
        headers: dict[str, str] | None = None,
        body: bytes | None = None,
        fine: frozenset[int] = frozenset(),
    ) -> Answer:
        """Return an answer that is a success, or whose status is `fine`.

        Raises:
            ConnectorError: `http.…`
        """
        for fresh in (False, True):
            request = Request(
                self._with_secrets(url),
                method,
                {**self._headers, **(headers or {})},
                {**self._secret_headers, **self._login()},
                body,
            )
            answer = self._client.ask(request)
            if answer.status != _UNAUTHORIZED or not self._token or fresh:
                break
            self._token = ""  # revoked before its time: once with a new one
        if 200 <= answer.status < 300 or answer.status in fine:
            return answer
        raise self.refusal(answer, address_of(url).shown)

    def _with_secrets(self, url: str) -> str:
        """Return an address with the hidden parameters; not one that an answer leads to."""
        if self._home is not None and address_of(url).origin != self._home.origin:
            return url
        return with_query(url, self._secret_query)

    def reach(self, url: str) -> None:
        """Log in where that is a request of its own, and connect; nothing else is asked.

        Raises:
            ConnectorError: `http.…`
        """
        self._login()
        self._client.reach(address_of(url))

    def refusal(self, answer: Answer, where: str) -> ConnectorError:
        """Return what a status means that is no success."""
        return status_error(
            answer.status,
            where,
            self.redacted(answer.body.decode("utf-8", "replace")),
            retry_after=retry_after(answer.header("Retry-After")),
        )

    def redacted(self, text: str) -> str:
        """Return a text without secrets: servers like to repeat what they were sent."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    def cut(self) -> None:
        """End a running request now; for other threads."""
        self._client.cut()

    def close(self) -> None:
        """Let go of the connection."""
        self._client.close()

    def _login(self) -> dict[str, str]:
        config = self._config
        match config.auth_type:
            case "basic":
                return {"Authorization": _basic(config.auth_user, config.auth_password)}
            case "bearer":
                return {"Authorization": f"Bearer {config.auth_token}"}
            case "oauth2":
                return {"Authorization": f"Bearer {self._valid_token()}"}
        return {}

    def _valid_token(self) -> str:
        if not self._token or self._clock() >= self._token_until:
            answer = self._fetched()
            lifetime = answer.get("expires_in")
            seconds = float(lifetime) if isinstance(lifetime, int | float) else _LIFETIME
            self._token = answer["access_token"]
            self._token_until = self._clock() + max(seconds - _EARLY, seconds / 2)
            self._secrets = _shapes((*self._config.secrets(), self._token))
        return self._token

    def _fetched(self) -> dict[str, Any]:
        config = self._config
        form = {"grant_type": "client_credentials"}
        if config.oauth2_scope:
            form["scope"] = config.oauth2_scope
        secret_headers = {}
        if config.oauth2_client_in == "header":
            name, secret = map(quote_plus, (config.oauth2_client_id, config.oauth2_client_secret))
            secret_headers["Authorization"] = _basic(name, secret)
        else:
            form["client_id"] = config.oauth2_client_id
            form["client_secret"] = config.oauth2_client_secret
        headers = {"Content-Type": _FORM, "Accept": "application/json"}
        body = urlencode(form).encode()
        url = config.oauth2_token_url
        client = config.client(address_of(url))
        try:
            answer = client.ask(Request(url, "POST", headers, secret_headers, body))
        finally:
            client.close()
        return self._read_token(answer, address_of(url).shown)

    def _read_token(self, answer: Answer, where: str) -> dict[str, Any]:
        said = self.redacted(answer.body.decode("utf-8", "replace"))
        if answer.status != 200:
            wait = retry_after(answer.header("Retry-After"))
            error = status_error(answer.status, where, said, retry_after=wait)
            if isinstance(error, RetriableError):
                raise error
            raise AuthError(
                "http.auth",
                f"no token: {error.message}",
                fix="Check the keys that begin with `oauth2.`.",
            )
        try:
            told: dict[str, Any] = json.loads(answer.body)
            token = told["access_token"]
            if not isinstance(token, str) or not is_header("Authorization", token):
                raise TypeError
        except (ValueError, KeyError, TypeError, RecursionError):
            raise AuthError(
                "http.auth",
                f"{where} answers without an access_token",
                fix="Check `oauth2.token.url`.",
            ) from None
        return told


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def _shapes(secrets: tuple[str, ...]) -> tuple[str, ...]:
    """Return the secrets and how they look in a URL; the longest first."""
    shapes = {shape for secret in secrets for shape in (secret, quote_plus(secret))}
    return tuple(sorted(shapes, key=len, reverse=True))
