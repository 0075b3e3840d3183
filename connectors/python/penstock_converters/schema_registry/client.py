"""Asks a schema registry that speaks Confluent's protocol, over HTTP.

A question goes to one URL after another, and then to all again after a pause, until one answers. A
redirect is not followed: a registry that moved is to be named.
"""

from __future__ import annotations

import base64
import json
import ssl
import time
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import httpcore

from penstock_converters import (
    RegistryAnswerError,
    RegistryAuthError,
    RegistryUnavailableError,
    SchemaRefusedError,
)
from penstock_converters.schema_registry.http import (
    MAX_BYTES,
    AnswerTooLongError,
    Timeouts,
    exchange,
    text_of,
)
from penstock_converters.schema_registry.tokens import (
    TokenOptions,
    TokenSource,
    TokenUnavailableError,
)

_CONTENT: Final = "application/vnd.schemaregistry.v1+json"
_CHECK: Final = (
    "Check that the registries of `schema.registry.url` run and can be reached from here."
)


@dataclass(frozen=True, slots=True)
class Reference:
    """A schema that another one uses: by which name, and where it is registered."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema as a registry keeps it.

    Attributes:
        kind: `AVRO`, `JSON` or `PROTOBUF`.
        text: The schema.
        references: What it uses.
        id: Its id, where the registry said it.
    """

    kind: str
    text: str
    references: tuple[Reference, ...] = ()
    id: int = -1


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """How the registry is asked.

    Attributes:
        urls: The URLs, without users.
        headers: What is sent to each URL, such as logins.
        tokens: Who gives tokens to log in with.
        proxy: URL of a proxy; empty: the registry is reached directly.
        retries: Rounds over all URLs after the first.
        wait_s: Pause before the first of them; each is twice as long as the one before.
    """

    urls: tuple[str, ...]
    headers: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    tokens: TokenOptions | None = None
    proxy: str = ""
    timeouts: Timeouts = field(default_factory=Timeouts)
    retries: int = 2
    wait_s: float = 0.5
    max_wait_s: float = 5.0


_UNREACHABLE: Final = (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProxyError)


class NotThereError(Exception):
    """The registry has no such schema, subject or version."""


class RegistryClient:
    """Asks a registry. Used by one thread."""

    def __init__(self, options: ClientOptions, tls: ssl.SSLContext | None = None) -> None:
        self._options = options
        self._pool = _make_pool(options.proxy, tls)
        self._tokens = (
            TokenSource(options.tokens, options.timeouts, tls) if options.tokens else None
        )

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()
        if self._tokens is not None:
            self._tokens.close()

    def schema_by_id(self, number: int) -> RegisteredSchema:
        """Return the schema of an id.

        Raises:
            NotThereError: the registry does not know the id.
            ConversionError: as the class says.
        """
        return _schema_of(self._ask("GET", f"/schemas/ids/{number}"))

    def schema_by_version(self, subject: str, version: int | str) -> RegisteredSchema:
        """Return a version of a subject's schema; `latest` is the newest.

        Raises:
            NotThereError: there is none.
        """
        path = f"/subjects/{_quote(subject)}/versions/{version}"
        return _schema_of(self._ask("GET", path))

    def register(self, subject: str, schema: RegisteredSchema, *, normalize: bool) -> int:
        """Register a schema, if the subject does not have it. Returns its id.

        Raises:
            SchemaRefusedError: `registry.incompatible`, `registry.invalid_schema`.
        """
        path = f"/subjects/{_quote(subject)}/versions"
        return self._send(path, schema, normalize=normalize)

    def find(self, subject: str, schema: RegisteredSchema, *, normalize: bool) -> int:
        """Return the id of a schema of a subject.

        Raises:
            NotThereError: the subject does not have it.
        """
        return self._send(f"/subjects/{_quote(subject)}", schema, normalize=normalize)

    def _send(self, path: str, schema: RegisteredSchema, *, normalize: bool) -> int:
        body: dict[str, Any] = {"schema": schema.text}
        if schema.kind != "AVRO":
            body["schemaType"] = schema.kind
        if schema.references:
            body["references"] = [
                {"name": one.name, "subject": one.subject, "version": one.version}
                for one in schema.references
            ]
        query = f"?normalize={str(normalize).lower()}"
        answer = self._ask("POST", path + query, json.dumps(body).encode())
        number = answer.get("id")
        if not isinstance(number, int):
            raise _not_a_registry(path, "its answer has no id")
        return number

    def _ask(self, method: str, path: str, body: bytes | None = None) -> dict[str, Any]:
        options, failure = self._options, "it has no URL"
        for turn in range(options.retries + 1):
            if turn:
                time.sleep(min(options.wait_s * 2 ** (turn - 1), options.max_wait_s))
            for url in options.urls:
                try:
                    status, content = self._request(method, url, path, body)
                except TokenUnavailableError as error:
                    failure = str(error)
                    continue
                except _UNREACHABLE as error:
                    failure = f"{url}: {str(error) or type(error).__name__}"
                    continue
                except httpcore.ProtocolError as error:
                    raise _not_a_registry(url, f"no HTTP: {error}") from None
                except AnswerTooLongError:
                    why = f"its answer has more than {MAX_BYTES} bytes"
                    raise _not_a_registry(url, why) from None
                if status in (401, 403) and self._tokens is not None:
                    self._tokens.forget()
                if status < 500 and status not in (408, 429):
                    return _read_answer(url + path, status, content)
                failure = f"{url}: status {status}: {text_of(content)}"
        raise RegistryUnavailableError(
            "registry.unavailable", f"the schema registry does not answer: {failure}", _CHECK
        )

    def _request(self, method: str, url: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        options = self._options
        headers = {"Accept": f"{_CONTENT}, application/json", "Content-Type": _CONTENT}
        headers |= options.headers.get(url, {})
        if self._tokens is not None:
            headers["Authorization"] = f"Bearer {self._tokens.token()}"
        return exchange(self._pool, method, url.rstrip("/") + path, headers, body, options.timeouts)


def _make_pool(proxy: str, tls: ssl.SSLContext | None) -> httpcore.ConnectionPool:
    # each topic has a client, and asks it seldom: no connection is kept
    if proxy:
        return httpcore.HTTPProxy(
            proxy, ssl_context=tls, max_connections=1, max_keepalive_connections=0
        )
    return httpcore.ConnectionPool(ssl_context=tls, max_connections=1, max_keepalive_connections=0)


def basic_login(user_info: str) -> str:
    """Return the header of a login by `user:password`."""
    return "Basic " + base64.b64encode(user_info.encode()).decode()


def _quote(subject: str) -> str:
    return urllib.parse.quote(subject, safe="")


def _read_answer(url: str, status: int, content: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        answer = None
    if status in (401, 403):
        raise RegistryAuthError(
            "registry.not_authorized",
            f"the schema registry refuses us (status {status}): {text_of(content)}",
            "Check the login (`basic.auth.…` or `bearer.auth.…`), and the user's rights.",
        )
    if not isinstance(answer, dict):
        raise _not_a_registry(url, f"status {status}, and no JSON object: {text_of(content)}")
    message = str(answer.get("message", ""))[:1000]
    if status == 404 and isinstance(answer.get("error_code"), int):
        raise NotThereError(message)
    if status == 409:
        raise SchemaRefusedError(
            "registry.incompatible",
            f"the schema does not fit to those that its subject has: {message}",
            "Change the rows so that it does, or the subject's compatibility.",
        )
    if status == 422:
        raise SchemaRefusedError(
            "registry.invalid_schema",
            f"the schema registry takes the schema for invalid: {message}",
            "Rename columns (`scrub.invalid.names=true` does), or change their types.",
        )
    if status != 200:
        raise _not_a_registry(url, f"status {status}: {message}")
    return answer


def _schema_of(answer: Mapping[str, Any]) -> RegisteredSchema:
    text, number = answer.get("schema"), answer.get("id", -1)
    references = answer.get("references") or []
    try:
        found = tuple(
            Reference(str(one["name"]), str(one["subject"]), int(one["version"]))
            for one in references
        )
    except (KeyError, TypeError, ValueError):
        raise _not_a_registry("its references", "they have no name, subject and version") from None
    if not isinstance(text, str) or not isinstance(number, int):
        raise _not_a_registry("its answer", "it has no schema")
    return RegisteredSchema(str(answer.get("schemaType") or "AVRO"), text, found, number)


def _not_a_registry(where: str, why: str) -> RegistryAnswerError:
    return RegistryAnswerError(
        "registry.not_a_registry",
        f"{where} does not answer as a schema registry of Confluent's: {why}",
        "Correct `schema.registry.url`; of Apicurio it ends with /apis/ccompat/v7.",
    )


def split_url(url: str) -> tuple[str, str]:
    """Return a URL without its user, and the user with the password; "" for none."""
    parts = urllib.parse.urlsplit(url)
    user, _, host = parts.netloc.rpartition("@")
    return parts._replace(netloc=host).geturl(), urllib.parse.unquote(user)


def references_of(
    client: RegistryClient, schema: RegisteredSchema, limit: int
) -> Sequence[tuple[str, str]]:
    """Return name and text of all that a schema uses, each after what it uses itself.

    Raises:
        NotThereError: one is not registered.
        RegistryAnswerError: there are more than `limit`.
    """
    found: dict[str, str] = {}
    pending: set[str] = set()

    def visit(one: RegisteredSchema) -> None:
        for reference in one.references:
            if reference.name in found or reference.name in pending:
                continue
            if len(found) + len(pending) >= limit:
                raise _not_a_registry(reference.name, f"a schema uses more than {limit} others")
            pending.add(reference.name)
            used = client.schema_by_version(reference.subject, reference.version)
            visit(used)
            found[reference.name] = used.text

    visit(schema)
    return list(found.items())
