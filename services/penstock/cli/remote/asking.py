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

from penstock.cli.waiting import waiting
from penstock.model.config_def import CombinedError
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

CONNECT_WITHIN: Final = 10.0
"""Seconds for a connection: a machine that drops what it is sent answers nothing at all."""

_SOON: Final = frozenset({408, 429, 502, 503, 504})
"""Statuses of what may go well a moment later."""

_SOON_CODES: Final = frozenset(
    {"scheduler.not_leader", "scheduler.starting", "config.contended", "offset.contended",
     "offset.still_held"}
)  # fmt: skip
"""Codes of conflicts that end by themselves."""

_FOREIGN_FIX: Final = "That is no Penstock gateway: name one with --server or PENSTOCK_SERVER."


class Server:
    """A gateway. `with Server(url) as server`."""

    def __init__(
        self, url: str, credential: str = "", ca: str = "", within: float = WITHIN
    ) -> None:
        """`url` is http://HOST:PORT. `credential` is NAME:PASSWORD, or a token; `ca` a PEM file
        that the gateway's certificate is checked by, if not what the machine trusts; `within` are
        seconds for an answer.

        Raises:
            ConfigError: `server.url`.
        """
        _refuse(url)
        self._url = url.rstrip("/")
        verify = _trusted(ca) if ca else True
        headers = {"Authorization": header_of(credential)} if credential else {}
        self._client = httpx.Client(
            base_url=self._url,
            timeout=httpx.Timeout(within, connect=min(within, CONNECT_WITHIN)),
            headers=headers,
            verify=verify,
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
        waits = httpx.Timeout(None, connect=CONNECT_WITHIN)
        with (
            self._told(),
            self._client.stream(method, path, params=query, timeout=waits, **more) as answer,
        ):
            if not answer.is_success:
                answer.read()
                raise error_in(answer.status_code, answer.content)
            lines = answer.iter_lines()
            while (line := self._next(lines)) is not None:
                value = _json(line, answer.status_code)
                if "error" in value:
                    raise error_in(int(value["error"]["error_code"]), json.dumps(value["error"]))
                yield value

    def _sent(self, method: str, path: str, **more: Any) -> httpx.Response:
        with self._told(), waiting(f"waiting for {self._url}"):
            return self._client.request(method, path, **more)

    def _next(self, lines: Iterator[str]) -> str | None:
        with waiting(f"waiting for the next line of {self._url}"):
            return next(lines, None)

    def _value(self, answer: httpx.Response) -> Any:
        if not answer.is_success:
            raise error_in(answer.status_code, answer.content)
        return _json(answer.content, answer.status_code) if answer.content else None

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except httpx.HTTPError as error:
            raise self._away(error) from error

    def _away(self, error: httpx.HTTPError) -> RetriableError:
        what = f"no answer from {self._url}: {type(error).__name__}: {error}".rstrip(": ")
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            return RetriableError(
                "server.untrusted",
                what,
                fix="Name the file of the authority that signed its certificate with --ca or "
                "PENSTOCK_CA, and the machine in --server as the certificate does.",
            )
        return RetriableError(
            "server.unreachable",
            what,
            fix="Start a gateway there (`penstock gateway`, `penstock cluster start`), or name "
            "another with --server.",
        )


def _refuse(url: str) -> None:
    try:
        parts = urlsplit(url)
        known = parts.scheme in {"http", "https"} and bool(parts.hostname)
        known = known and parts.port != 0  # it raises where it is no number
    except ValueError:
        known = False
    if not known:
        raise ConfigError(
            "server.url",
            f"{url!r} is no URL of a gateway",
            fix="Write http://HOST:PORT.",
            config_path="--server",
        )


def _trusted(ca: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise ConfigError(
            "server.ca",
            f"{ca} is no PEM file: {error.strerror or error}",
            fix="Name the file of the authority that signed the gateway's certificate.",
            config_path="--ca",
        ) from error


def _json(text: bytes | str, status: int) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise _foreign(f"an answer of status {status} is no JSON") from None


def _foreign(what: str) -> ConfigError:
    return ConfigError("server.foreign", what, fix=_FOREIGN_FIX, config_path="--server")


def header_of(credential: str) -> str:
    """Return the header of NAME:PASSWORD, or of a token, which has no colon.

    Raises:
        ConfigError: `server.credential`.
    """
    if ":" in credential:
        return f"Basic {base64.b64encode(credential.encode()).decode()}"
    if not credential.isascii() or not credential.isprintable():
        raise ConfigError(
            "server.credential",
            "a token has letters that no token has",
            fix="Write NAME:PASSWORD, or a token as the provider gave it.",
            config_path="PENSTOCK_CREDENTIAL",
        )
    return f"Bearer {credential}"


def path(*parts: str) -> str:
    """Return a path of names, whatever is in them."""
    return "/" + "/".join(quote(part, safe="") for part in parts)


def error_in(status: int, body: bytes | str) -> PenstockError:
    """Return the error that an answer tells; of a configuration, all that is wrong with it."""
    try:
        told = json.loads(body)
        message, code = str(told["message"]), str(told.get("code", ""))
    except (ValueError, KeyError, TypeError):
        what = f"status {status}, and no reason that can be read"
        if status in _SOON:  # of what stands before a gateway
            return RetriableError("server.foreign", what, fix="Try again; see to what is there.")
        return _foreign(what)
    findings = [_finding(one) for one in told.get("errors") or ()]
    if findings:
        return CombinedError(findings) if len(findings) > 1 else findings[0]
    fix = str(told.get("fix", "")) or ("" if code else _FOREIGN_FIX)
    return error_of(
        Diagnostic(
            code or "server.refused",
            message.removesuffix(fix).rstrip(),
            ErrorClass(_kind(status, code).error_class),
            fix=fix,
            config_path=str(told.get("config_path", "")),
        )
    )


def _kind(status: int, code: str) -> type[PenstockError]:
    """Return the class of an error: it decides how a command ends."""
    if status in _SOON or code in _SOON_CODES:
        return RetriableError
    if status in {401, 403}:
        return AuthError
    return ConfigError if status < 500 else InternalError


def _finding(told: Mapping[str, Any]) -> ConfigError:
    return ConfigError(
        str(told.get("code", "config.invalid")),
        str(told.get("message", "")),
        fix=str(told.get("fix", "")),
        config_path=str(told.get("config_path", "")),
    )
