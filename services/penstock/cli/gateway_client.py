"""Requests to a gateway. Its errors become the product's own."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Self
from urllib.parse import quote, urlsplit

import httpx

from penstock.cli.progress import status_line
from penstock.model.config_def import CombinedError
from penstock.model.errors import (
    AuthError,
    ConfigError,
    Diagnostic,
    ErrorClass,
    InternalError,
    PenstockError,
    RetriableError,
    error_from_diagnostic,
)
from penstock.pipeline_files.connector_file import TARGET_STATES

TIMEOUT_S: Final = 95.0
"""The gateway gives up after 90 seconds, and its answer names what it waited for."""

CONNECT_TIMEOUT_S: Final = 10.0
"""A machine that drops packets never answers at all."""

_RETRIABLE_STATUSES: Final = frozenset({408, 429, 502, 503, 504})

_RETRIABLE_CODES: Final = frozenset(
    {"scheduler.not_leader", "scheduler.starting", "config.contended", "offset.contended",
     "offset.still_held"}
)  # fmt: skip
"""Codes of conflicts that end by themselves."""

_NOT_A_GATEWAY_FIX: Final = (
    "This is not a Penstock gateway: name one with --server or PENSTOCK_SERVER."
)

_RUNNING: Final = "RUNNING"


class GatewayClient:
    """A connection to a gateway. `with GatewayClient(url) as gateway`."""

    def __init__(
        self, url: str, credential: str = "", ca: str = "", timeout_s: float = TIMEOUT_S
    ) -> None:
        """Check the arguments. The first request connects.

        Args:
            url: http://HOST:PORT.
            credential: NAME:PASSWORD, or a token.
            ca: a PEM file that the gateway's certificate is checked against; empty for the
                authorities that the machine trusts.
            timeout_s: how long a response may take.

        Raises:
            ConfigError: `server.url`, `server.ca`, `server.credential`.
        """
        _check_url(url)
        self._url = url.rstrip("/")
        verify = tls_context(ca) if ca else True
        headers = {"Authorization": authorization_header(credential)} if credential else {}
        self._client = httpx.Client(
            base_url=self._url,
            timeout=httpx.Timeout(timeout_s, connect=min(timeout_s, CONNECT_TIMEOUT_S)),
            headers=headers,
            verify=verify,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def get(self, path: str, **query: str | float) -> Any:
        """Return the JSON value at a path."""
        return self._value(self._request("GET", path, params=query))

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        revision: int = 0,
        query: Mapping[str, str] | None = None,
    ) -> Any:
        """Send a request; `revision` is the one that a change was made from, 0 for any."""
        headers = {"If-Match": f'"{revision}"'} if revision else {}
        more = {} if body is None else {"json": body}
        return self._value(self._request(method, path, params=query, headers=headers, **more))

    def stream(self, method: str, path: str, body: Any = None, **query: str | float) -> Any:
        """Iterate over the JSON lines of a response, as they come."""
        more = {} if body is None else {"json": body}
        timeout = httpx.Timeout(None, connect=CONNECT_TIMEOUT_S)
        with (
            self._translated_errors(),
            self._client.stream(method, path, params=query, timeout=timeout, **more) as response,
        ):
            if not response.is_success:
                response.read()
                raise error_of_response(response.status_code, response.content)
            lines = response.iter_lines()
            while (line := self._next_line(lines)) is not None:
                value = _parse_json(line, response.status_code)
                if "error" in value:
                    error = value["error"]
                    raise error_of_response(int(error["error_code"]), json.dumps(error))
                yield value

    def set_state(self, connector: str, state: str) -> None:
        """Request the state RUNNING, PAUSED or STOPPED for a connector."""
        self.send("PUT", url_path("connectors", connector, TARGET_STATES[state]))

    def put_config(
        self, connector: str, config: Mapping[str, str], state: str = "", revision: int = 0
    ) -> Any:
        """Create a connector, or give it another configuration and state. Return what the gateway
        has stored.

        The order lets nothing run that should not: a connector that is to pause or stop does so
        before its configuration changes; one that is to run is changed first.

        Args:
            connector: its name.
            config: all its keys.
            state: its new state; empty to leave that as it is.
            revision: the one that the change was made from; 0 for any.
        """
        if state in {"", _RUNNING}:
            stored = self._put(connector, config, revision)
            if state:
                self.set_state(connector, state)
            return stored
        path = url_path("v1", "connectors", connector)
        before = self.get(path)
        if revision in {0, before["revision"]}:  # else the gateway refuses: change nothing before
            self.set_state(connector, state)
            after = self.get(path)
            # a new state makes a new revision; another user's change makes a new version, too
            same = after["version"] == before["version"]
            revision = after["revision"] if same else before["revision"]
        return self._put(connector, config, revision)

    def _put(self, connector: str, config: Mapping[str, str], revision: int) -> Any:
        path = url_path("connectors", connector, "config")
        return self.send("PUT", path, dict(config), revision=revision)

    def _request(self, method: str, path: str, **more: Any) -> httpx.Response:
        with self._translated_errors(), status_line(f"waiting for {self._url}"):
            return self._client.request(method, path, **more)

    def _next_line(self, lines: Iterator[str]) -> str | None:
        with status_line(f"waiting for the next line of {self._url}"):
            return next(lines, None)

    def _value(self, response: httpx.Response) -> Any:
        if not response.is_success:
            raise error_of_response(response.status_code, response.content)
        if not response.content:
            return None
        return _parse_json(response.content, response.status_code)

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        try:
            yield
        except httpx.HTTPError as error:
            raise self._no_response(error) from error

    def _no_response(self, error: httpx.HTTPError) -> RetriableError:
        message = f"no response from {self._url}: {type(error).__name__}: {error}".rstrip(": ")
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            return RetriableError(
                "server.untrusted",
                message,
                fix="Name the file of the authority that signed its certificate with --ca or "
                "PENSTOCK_CA, and use the host name of the certificate in --server.",
            )
        return RetriableError(
            "server.unreachable",
            message,
            fix="Start a gateway there (`penstock gateway`, `penstock cluster start`), or name "
            "another with --server.",
        )


def url_path(*parts: str) -> str:
    """Return an absolute path; each part is quoted whole."""
    return "/" + "/".join(quote(part, safe="") for part in parts)


def authorization_header(credential: str, variable: str = "PENSTOCK_CREDENTIAL") -> str:
    """Return the header for NAME:PASSWORD, or for a token, which has no colon. `variable` is where
    it is set.

    Raises:
        ConfigError: `server.credential`.
    """
    if ":" in credential:
        return f"Basic {base64.b64encode(credential.encode()).decode()}"
    if not credential.isascii() or not credential.isprintable():
        raise ConfigError(
            "server.credential",
            "the token has characters that are not printable ASCII",
            fix="Set NAME:PASSWORD, or a token exactly as its provider issued it.",
            config_path=variable,
        )
    return f"Bearer {credential}"


def error_of_response(status: int, body: bytes | str) -> PenstockError:
    """Return the error of a failed response; an invalid configuration with all its errors."""
    try:
        value = json.loads(body)
        message, code = str(value["message"]), str(value.get("code", ""))
    except (ValueError, KeyError, TypeError):
        what = f"response with status {status} and an unreadable body"
        if status in _RETRIABLE_STATUSES:  # of a proxy before a gateway
            fix = "Try again; check the program that answers at this address."
            return RetriableError("server.foreign", what, fix=fix)
        return _not_a_gateway(what)
    findings = [_config_error(one) for one in value.get("errors") or ()]
    if findings:
        return CombinedError(findings) if len(findings) > 1 else findings[0]
    fix = str(value.get("fix", "")) or ("" if code else _NOT_A_GATEWAY_FIX)
    return error_from_diagnostic(
        Diagnostic(
            code or "server.refused",
            message.removesuffix(fix).rstrip(),
            ErrorClass(_error_type(status, code).error_class),
            fix=fix,
            config_path=str(value.get("config_path", "")),
        )
    )


def _error_type(status: int, code: str) -> type[PenstockError]:
    """Return the class of an error: it decides the exit code of a command."""
    if status in _RETRIABLE_STATUSES or code in _RETRIABLE_CODES:
        return RetriableError
    if status in {401, 403}:
        return AuthError
    return ConfigError if status < 500 else InternalError


def _config_error(finding: Mapping[str, Any]) -> ConfigError:
    return ConfigError(
        str(finding.get("code", "config.invalid")),
        str(finding.get("message", "")),
        fix=str(finding.get("fix", "")),
        config_path=str(finding.get("config_path", "")),
    )


def _parse_json(text: bytes | str, status: int) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise _not_a_gateway(f"response with status {status} that is not JSON") from None


def _not_a_gateway(message: str) -> ConfigError:
    return ConfigError("server.foreign", message, fix=_NOT_A_GATEWAY_FIX, config_path="--server")


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in {"http", "https"} and bool(parts.hostname)
        valid = valid and parts.port != 0  # `port` raises where it is not a number
    except ValueError:
        valid = False
    if not valid:
        raise ConfigError(
            "server.url",
            f"{url!r} is not the URL of a gateway",
            fix="Write http://HOST:PORT.",
            config_path="--server",
        )


def tls_context(ca: str, option: str = "--ca") -> ssl.SSLContext:
    """Return what checks certificates against a PEM file, which `option` names.

    Raises:
        ConfigError: `server.ca`.
    """
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise ConfigError(
            "server.ca",
            f"{ca} is not a readable PEM file: {error.strerror or error}",
            fix="Name the file of the authority that signed the server's certificate.",
            config_path=option,
        ) from error
