"""`${vault:path:key}`: HashiCorp Vault, its key-value engine and whatever else answers a GET with
keys (a database engine, say, that makes a password for a while).

Source of the calls: https://developer.hashicorp.com/vault/api-docs
"""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from penstock.model.errors import PenstockError
from penstock.secrets.provider import Answer, not_found, refused, unreachable
from penstock.telemetry import Secret

DEADLINE: Final = 10.0
"""Seconds for an answer of Vault's. Longer holds up the start of a task that could be told why."""

MOST_BYTES: Final = 1 << 20
"""Size of the largest answer."""

_SEGMENT: Final = re.compile(r"[A-Za-z0-9_@.~+=-]+")


@dataclass(frozen=True, slots=True)
class VaultSettings:
    """Where Vault is, and how we prove who we are: by a token, a file with one, or a role.

    `mount` is where the key-value engine is; with `engine` 2 its paths have `data` behind that. A
    secret without a lease is read again after `ttl` seconds.
    """

    address: str
    token: Secret | None = None
    token_file: Path | None = None
    role_id: str = ""
    secret_id_file: Path | None = None
    namespace: str = ""
    mount: str = "secret"
    engine: int = 2
    authority: Path | None = None
    ttl: float | None = 300.0


class VaultProvider:
    """Reads secrets of Vault. Holds a connection, and the token of its role while that is good."""

    def __init__(self, settings: VaultSettings) -> None:
        self._settings = settings
        self._client: httpx.AsyncClient | None = None
        self._token: Secret | None = None

    async def read(self, path: str, keys: Collection[str]) -> Answer:
        """Read keys of a secret.

        Raises:
            PenstockError: `secrets.refused`, `secrets.not_found`, `secrets.unreachable`.
        """
        engine, url = self._settings.engine, self._url(path)
        answer = await self._asked("GET", url, await self._proof())
        if answer.status_code == httpx.codes.FORBIDDEN and self._token is not None:
            self._token = None  # the role's token has ended: one more, with a new one
            answer = await self._asked("GET", url, await self._proof())
        document = self._document(answer, path)
        values = self._object(document, "data")
        if engine == 2:
            values = self._object(values, "data")
        lease = document.get("lease_duration") or 0
        if not isinstance(lease, int | float):
            raise self._away("a lease that is no number")
        found = {key: _as_text(values[key]) for key in keys if values.get(key) is not None}
        # a new one is wanted before the old one ends
        return Answer(found, lease * 2 / 3 if lease > 0 else self._settings.ttl)

    async def close(self) -> None:
        """Hang up. Idempotent."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def _url(self, path: str) -> str:
        segments = path.strip("/").split("/")
        if not all(_SEGMENT.fullmatch(s) and s not in {".", ".."} for s in segments):
            raise refused(f"{path[:200]!r} is no path of a secret", "Write `${vault:app/db:key}`.")
        kind = ("data",) if self._settings.engine == 2 else ()
        return "/".join(("/v1", self._settings.mount.strip("/"), *kind, *segments))

    async def _proof(self) -> Mapping[str, str]:
        """Return the headers that say who we are."""
        settings = self._settings
        headers = {"X-Vault-Request": "true"}
        if settings.namespace:
            headers["X-Vault-Namespace"] = settings.namespace
        if settings.role_id and self._token is None:
            self._token = await self._login(headers)
        token = self._token or settings.token
        if token is None and settings.token_file is not None:
            token = Secret(_text(settings.token_file))  # an agent writes it anew
        if token is not None:
            headers["X-Vault-Token"] = token.reveal()
        return headers

    async def _login(self, headers: Mapping[str, str]) -> Secret:
        file = self._settings.secret_id_file
        body = {"role_id": self._settings.role_id, "secret_id": _text(file) if file else ""}
        answer = await self._asked("POST", "/v1/auth/approle/login", headers, json=body)
        token = self._object(self._document(answer, "the role"), "auth").get("client_token")
        if not isinstance(token, str) or not token:
            raise self._away("a login without a token")
        return Secret(token)

    async def _asked(
        self, method: str, url: str, headers: Mapping[str, str], **body: Any
    ) -> httpx.Response:
        client = self._connected()
        try:
            async with client.stream(method, url, headers=dict(headers), **body) as answer:
                content = b""
                async for part in answer.aiter_bytes():
                    content += part
                    if len(content) > MOST_BYTES:
                        raise self._away(f"more than {MOST_BYTES} bytes")
        except httpx.HTTPError as error:
            # of what went wrong with the connection; no answer is in it
            raise self._away(f"{type(error).__name__}: {error}"[:300]) from None
        return httpx.Response(answer.status_code, content=content)

    def _connected(self) -> httpx.AsyncClient:
        if self._client is None:
            self._client = httpx.AsyncClient(
                base_url=self._settings.address,
                timeout=DEADLINE,
                verify=self._verified_by(),
                follow_redirects=False,
                trust_env=False,
            )
        return self._client

    def _verified_by(self) -> ssl.SSLContext:
        authority = self._settings.authority
        try:
            return ssl.create_default_context(cafile=authority)
        except OSError as error:  # of ssl, too
            raise refused(
                f"{authority} is no file of certificates that can be read: "
                f"{error.strerror or error}",
                "Correct `authority` of the provider: a PEM file that the worker may read.",
            ) from None

    def _document(self, answer: httpx.Response, path: str) -> dict[str, Any]:
        """Return what was answered; its text is in no error: it may be the secret."""
        status = answer.status_code
        if status == httpx.codes.NOT_FOUND:
            raise not_found(f"Vault has no secret {path!r}", "Write it there, or correct the path.")
        if status in {httpx.codes.FORBIDDEN, httpx.codes.BAD_REQUEST}:
            raise refused(
                f"Vault refuses {path!r} (status {status})",
                "See the policy of the worker's token, and that the token is still good.",
            )
        if status != httpx.codes.OK:
            raise self._away(f"status {status}, {len(answer.content)} bytes")
        try:
            document = answer.json()
        except ValueError:
            raise self._away("an answer that is no JSON") from None
        if not isinstance(document, dict):
            raise self._away("an answer that is no object")
        return document

    def _object(self, document: Mapping[str, Any], key: str) -> dict[str, Any]:
        """Return an object in an answer; an empty one where it is null."""
        found = document.get(key)
        if found is not None and not isinstance(found, dict):
            raise self._away(f"an answer whose `{key}` is no object")
        return found or {}

    def _away(self, why: str) -> PenstockError:
        return unreachable(
            f"Vault at {self._settings.address} gave no answer: {why}",
            "See that it runs, is unsealed and reachable from the worker.",
        )


def _as_text(value: Any) -> str:
    """Return a text as it is, and anything else as JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise unreachable(
            f"{file} cannot be read: {error.strerror}", "See that the worker may read it."
        ) from None
