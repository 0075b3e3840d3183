"""Requests to a gateway, whose errors become the product's own."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Self
from urllib.parse import quote, urlsplit

import httpx

from penstock.model.errors import (
    AuthError,
    ConfigError,
    Diagnostic,
    ErrorClass,
    InternalError,
    PenstockError,
    RetriableError,
    error_of,
)

WITHIN: Final = 95.0
"""Seconds for an answer: the gateway gives up after 90, and says what it waited for."""

_CLASSES: Final[Mapping[int, type[PenstockError]]] = {
    401: AuthError,
    403: AuthError,
    409: ConfigError,
    500: InternalError,
    503: RetriableError,
}


class Server:
    """A gateway. `with Server(url) as server`."""

    def __init__(self, url: str, credential: str = "", ca: str = "") -> None:
        """`url` is http://HOST:PORT. `credential` is NAME:PASSWORD, or a token; `ca` a PEM file
        that the gateway's certificate is checked by, if not what the machine trusts.

        Raises:
            ConfigError: `server.url`.
        """
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.netloc:
            raise ConfigError(
                "server.url",
                f"{url!r} is no URL of a gateway",
                fix="Write http://HOST:PORT.",
                config_path="--server",
            )
        self._url = url.rstrip("/")
        verify: ssl.SSLContext | bool = True
        if ca:
            try:
                verify = ssl.create_default_context(cafile=ca)
            except OSError as error:
                raise ConfigError(
                    "server.ca",
                    f"{ca} is no PEM file: {error.strerror or error}",
                    fix="Name the file of the authority that signed the gateway's certificate.",
                    config_path="--ca",
                ) from error
        headers = {"Authorization": header_of(credential)} if credential else {}
        self._client = httpx.Client(
            base_url=self._url, timeout=WITHIN, headers=headers, verify=verify
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def get(self, path: str, **query: str | float) -> Any:
        """Return what is at a path."""
        return self._value(self._sent("GET", path, params=query))

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        revision: int = 0,
        query: Mapping[str, str] | None = None,
    ) -> Any:
        """Send a request; `revision` is the one that a change was made from."""
        headers = {"If-Match": f'"{revision}"'} if revision else {}
        more = {} if body is None else {"json": body}
        return self._value(self._sent(method, path, params=query, headers=headers, **more))

    def lines(self, method: str, path: str, body: Any = None, **query: str | float) -> Any:
        """Iterate over an answer that goes on."""
        more = {} if body is None else {"json": body}
        with (
            self._told(),
            self._client.stream(method, path, params=query, timeout=None, **more) as answer,
        ):
            if answer.is_error:
                answer.read()
                raise error_in(answer.status_code, answer.content)
            for line in answer.iter_lines():
                value = json.loads(line)
                if "error" in value:
                    raise error_in(int(value["error"]["error_code"]), json.dumps(value["error"]))
                yield value

    def _sent(self, method: str, path: str, **more: Any) -> httpx.Response:
        with self._told():
            return self._client.request(method, path, **more)

    def _value(self, answer: httpx.Response) -> Any:
        if answer.is_error:
            raise error_in(answer.status_code, answer.content)
        return answer.json() if answer.content else None

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except httpx.HTTPError as error:
            raise RetriableError(
                "server.unreachable",
                f"no answer from {self._url}: {type(error).__name__}: {error}".rstrip(": "),
                fix="Start a gateway there (`penstock gateway`, `penstock cluster start`), or name "
                "another with --server.",
            ) from error


def header_of(credential: str) -> str:
    """Return the header of NAME:PASSWORD, or of a token, which has no colon."""
    if ":" in credential:
        return f"Basic {base64.b64encode(credential.encode()).decode()}"
    return f"Bearer {credential}"


def path(*parts: str) -> str:
    """Return a path of names, whatever is in them."""
    return "/" + "/".join(quote(part, safe="") for part in parts)


def error_in(status: int, body: bytes | str) -> PenstockError:
    """Return the error that an answer tells."""
    try:
        told = json.loads(body)
        message, code = str(told["message"]), str(told.get("code", "server.refused"))
    except (ValueError, KeyError, TypeError):
        message, code, told = (
            f"status {status}, and no reason that can be read",
            "server.foreign",
            {},
        )
    kind = _CLASSES.get(status, ConfigError if status < 500 else InternalError)
    fix = str(told.get("fix", ""))
    return error_of(
        Diagnostic(
            code,
            message.removesuffix(fix).rstrip(),
            ErrorClass(kind.error_class),
            fix=fix,
            config_path=str(told.get("config_path", "")),
        )
    )
