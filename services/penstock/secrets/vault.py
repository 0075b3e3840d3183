"""`${vault:path:key}`: secrets in HashiCorp Vault.

Reads the key-value engine, and other engines that answer a GET with keys, for example a database
engine that creates a temporary password.

API: https://developer.hashicorp.com/vault/api-docs
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
from penstock.secrets.provider import ProviderResponse, not_found, refused, unreachable
from penstock.telemetry.redaction import Secret

RESPONSE_TIMEOUT_S: Final = 10.0
"""Time for a response of Vault. A longer time delays the error of a task that cannot start."""

MAX_RESPONSE_BYTES: Final = 1 << 20
"""Size of the largest response."""

_SEGMENT: Final = re.compile(r"[A-Za-z0-9_@.~+=-]+")


@dataclass(frozen=True, slots=True)
class VaultSettings:
    """Address of Vault, and the credentials: a token, a file with a token, or a role.

    `mount`: path of the key-value engine; with `engine` 2, `data` follows it in paths. A secret
    without a lease is read again after `ttl_s`.
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
    ttl_s: float | None = 300.0


class VaultProvider:
    """Reads secrets of Vault. Keeps a connection, and the token of its role while it is valid."""

    def __init__(self, settings: VaultSettings) -> None:
        self._settings = settings
        self._client: httpx.AsyncClient | None = None
        self._token: Secret | None = None

    async def read(self, path: str, keys: Collection[str]) -> ProviderResponse:
        """Read keys of a secret.

        Raises:
            PenstockError: `secrets.refused`, `secrets.not_found`, `secrets.unreachable`.
        """
        engine, url = self._settings.engine, self._url(path)
        response = await self._send("GET", url, await self._headers())
        if response.status_code == httpx.codes.FORBIDDEN and self._token is not None:
            self._token = None  # the token of the role has expired: retry with a new one
            response = await self._send("GET", url, await self._headers())
        document = self._parse(response, path)
        values = self._read_object(document, "data")
        if engine == 2:
            values = self._read_object(values, "data")
        lease_s = document.get("lease_duration") or 0
        if not isinstance(lease_s, int | float):
            raise self._invalid_response("`lease_duration` is not a number")
        found = {key: _to_text(values[key]) for key in keys if values.get(key) is not None}
        # read again before the lease ends
        return ProviderResponse(found, lease_s * 2 / 3 if lease_s > 0 else self._settings.ttl_s)

    async def close(self) -> None:
        """Close the connection. Idempotent."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def _url(self, path: str) -> str:
        segments = path.strip("/").split("/")
        if not all(_SEGMENT.fullmatch(s) and s not in {".", ".."} for s in segments):
            raise refused(
                f"{path[:200]!r} is not the path of a secret", "Write `${vault:app/db:key}`."
            )
        kind = ("data",) if self._settings.engine == 2 else ()
        return "/".join(("/v1", self._settings.mount.strip("/"), *kind, *segments))

    async def _headers(self) -> Mapping[str, str]:
        """Return the headers with the credentials; log in when there is no token."""
        settings = self._settings
        headers = {"X-Vault-Request": "true"}
        if settings.namespace:
            headers["X-Vault-Namespace"] = settings.namespace
        if settings.role_id and self._token is None:
            self._token = await self._login(headers)
        token = self._token or settings.token
        if token is None and settings.token_file is not None:
            token = Secret(_read_file(settings.token_file))  # read again: an agent renews it
        if token is not None:
            headers["X-Vault-Token"] = token.reveal()
        return headers

    async def _login(self, headers: Mapping[str, str]) -> Secret:
        file = self._settings.secret_id_file
        body = {"role_id": self._settings.role_id, "secret_id": _read_file(file) if file else ""}
        response = await self._send("POST", "/v1/auth/approle/login", headers, json=body)
        token = self._read_object(self._parse(response, "the role"), "auth").get("client_token")
        if not isinstance(token, str) or not token:
            raise self._invalid_response("the login returned no token")
        return Secret(token)

    async def _send(
        self, method: str, url: str, headers: Mapping[str, str], **body: Any
    ) -> httpx.Response:
        client = self._connect()
        try:
            async with client.stream(method, url, headers=dict(headers), **body) as response:
                content = b""
                async for part in response.aiter_bytes():
                    content += part
                    if len(content) > MAX_RESPONSE_BYTES:
                        raise self._invalid_response(f"more than {MAX_RESPONSE_BYTES} bytes")
        except httpx.HTTPError as error:
            # an error of the connection, without parts of a response
            raise self._invalid_response(f"{type(error).__name__}: {error}"[:300]) from None
        return httpx.Response(response.status_code, content=content)

    def _connect(self) -> httpx.AsyncClient:
        if self._client is None:
            self._client = httpx.AsyncClient(
                base_url=self._settings.address,
                timeout=RESPONSE_TIMEOUT_S,
                verify=self._tls_context(),
                follow_redirects=False,
                trust_env=False,
            )
        return self._client

    def _tls_context(self) -> ssl.SSLContext:
        authority = self._settings.authority
        try:
            return ssl.create_default_context(cafile=authority)
        except OSError as error:  # includes errors of ssl
            raise refused(
                f"{authority} cannot be read as a file of certificates: {error.strerror or error}",
                "Set `authority` of the provider to a PEM file that the worker may read.",
            ) from None

    def _parse(self, response: httpx.Response, path: str) -> dict[str, Any]:
        """Return the JSON object of a response. Errors never quote it: it may have the secret."""
        status = response.status_code
        if status == httpx.codes.NOT_FOUND:
            raise not_found(f"Vault has no secret {path!r}", "Store it there, or correct the path.")
        if status in {httpx.codes.FORBIDDEN, httpx.codes.BAD_REQUEST}:
            raise refused(
                f"Vault refuses {path!r} (status {status})",
                "Check the policy of the token of the worker, and whether the token has expired.",
            )
        if status != httpx.codes.OK:
            raise self._invalid_response(f"status {status}, {len(response.content)} bytes")
        try:
            document = response.json()
        except ValueError:
            raise self._invalid_response("the response is not JSON") from None
        if not isinstance(document, dict):
            raise self._invalid_response("the response is not an object")
        return document

    def _read_object(self, document: Mapping[str, Any], key: str) -> dict[str, Any]:
        """Return an object of a response; an empty one when it is null."""
        found = document.get(key)
        if found is not None and not isinstance(found, dict):
            raise self._invalid_response(f"`{key}` is not an object")
        return found or {}

    def _invalid_response(self, why: str) -> PenstockError:
        return unreachable(
            f"Vault at {self._settings.address} gave no valid response: {why}",
            "Check that Vault runs, is unsealed, and can be reached from the worker.",
        )


def _to_text(value: Any) -> str:
    """Return a text as it is, and other values as JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _read_file(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise unreachable(
            f"{file} cannot be read: {error.strerror}", "Allow the worker to read it."
        ) from None
