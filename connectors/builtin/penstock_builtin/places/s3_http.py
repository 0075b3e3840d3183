"""One request to an S3-compatible store: sent, tried again, answered or told in our words."""

from __future__ import annotations

import http.client
import random
import re
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlsplit

from penstock_builtin.places.s3_keys import S3Access
from penstock_builtin.places.s3_signing import escaped_path, escaped_query, signed_headers
from penstock_connector import AuthError, ConfigError, ConnectorError, RetriableError

_TIMEOUT: Final = 20.0
"""Seconds without a byte, of a connection or an answer. Shorter fails on slow networks; longer lets
a store that hangs hold a task."""

_WITHIN: Final = 45.0
"""Seconds in which a request is tried again. Then the task fails, and is tried again as a whole."""

_PAUSE: Final = 0.1
"""Seconds before the second try; doubled for each further one, and varied by a half, so that tasks
that failed together do not come again together."""

_PAUSE_MOST: Final = 3.0
_AGAIN: Final = frozenset({429, 500, 502, 503, 504})
_CODE: Final = re.compile(rb"<Code>([^<]{1,100})</Code>")
_ANSWER_MOST: Final = 64 << 20
"""Bytes of an answer. Nothing that is asked for is longer; a store that sends more is not one."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a store answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def code(self) -> str:
        """The store's name for what went wrong."""
        match = _CODE.search(self.body)
        return match[1].decode("ascii", "replace") if match else ""


class S3Requests:
    """Requests to one bucket. Every thread has a connection of its own, which is kept."""

    def __init__(self, bucket: str, access: S3Access) -> None:
        self.bucket, self._access = bucket, access
        parts = urlsplit(access.endpoint)
        self._tls = parts.scheme == "https"
        # A bucket with dots in its name fits no certificate of `*.host`.
        in_path = access.path_style or "." in bucket
        self._server = parts.netloc if in_path else f"{bucket}.{parts.netloc}"
        self._base = parts.path + (f"/{bucket}" if in_path else "")
        self._kept = threading.local()
        self._all: set[http.client.HTTPConnection] = set()

    def send(
        self,
        method: str,
        key: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        allow: frozenset[int] = frozenset(),
    ) -> Answer:
        """Send a request, and return its answer.

        Args:
            method: The verb.
            key: The object; empty for the bucket.
            query: Of the URL.
            body: Of the request; it is signed.
            headers: More of them; not signed.
            allow: Statuses beside 2xx that are the caller's to understand.

        Raises:
            ConnectorError: anything else.
        """
        deadline, pause = time.monotonic() + _WITHIN, _PAUSE
        while True:
            try:
                answer = self._once(method, key, query or {}, body, headers or {})
            except (OSError, http.client.HTTPException) as error:
                self._drop()
                if isinstance(error, ssl.SSLCertVerificationError):
                    raise self._unverified(error) from error
                failed: ConnectorError = self._unreachable(error)
            else:
                if answer.status < 300 or answer.status in allow:
                    return answer
                failed = self._told(method, key, answer)
                if answer.status not in _AGAIN and answer.code != "RequestTimeout":
                    raise failed
            if time.monotonic() + pause > deadline:
                raise failed
            time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
            pause = min(pause * 2, _PAUSE_MOST)

    def close(self) -> None:
        """Close the connections."""
        for connection in list(self._all):
            connection.close()
        self._all.clear()
        self._kept = threading.local()

    def _once(
        self,
        method: str,
        key: str,
        query: Mapping[str, str],
        body: bytes,
        more: Mapping[str, str],
    ) -> Answer:
        path = f"{self._base}/{key}" if key or not self._base else self._base
        signed = signed_headers(
            method, self._server, path, query, body, self._access, datetime.now(UTC)
        )
        target = escaped_path(path) + (f"?{escaped_query(query)}" if query else "")
        connection = self._connection()
        connection.request(method, target, body or None, {**signed, **more})
        response = connection.getresponse()
        data = response.read(_ANSWER_MOST + 1)
        if len(data) > _ANSWER_MOST:
            raise http.client.HTTPException("the answer is too long")
        expected = response.headers.get("Content-Length")
        if method != "HEAD" and expected is not None and int(expected) != len(data):
            raise http.client.IncompleteRead(data)
        return Answer(
            response.status, {name.lower(): v for name, v in response.headers.items()}, data
        )

    def _connection(self) -> http.client.HTTPConnection:
        kept: http.client.HTTPConnection | None = getattr(self._kept, "connection", None)
        if kept is None:
            if self._tls:
                context = ssl.create_default_context()
                kept = http.client.HTTPSConnection(self._server, timeout=_TIMEOUT, context=context)
            else:
                kept = http.client.HTTPConnection(self._server, timeout=_TIMEOUT)
            self._kept.connection = kept
            self._all.add(kept)
        return kept

    def _drop(self) -> None:
        kept = getattr(self._kept, "connection", None)
        if kept is not None:
            kept.close()
            self._all.discard(kept)
            self._kept.connection = None

    def _told(self, method: str, key: str, answer: Answer) -> ConnectorError:
        where = f"s3://{self.bucket}/{key}: {method} was answered {answer.status} {answer.code}"
        if answer.code == "NoSuchBucket" or (answer.status == 404 and not key):
            return ConfigError(
                "s3.no_bucket",
                f"{self._access.endpoint} has no bucket {self.bucket!r}",
                fix="Make the bucket, or correct its name.",
                config_path="path",
            )
        if answer.status in {401, 403}:
            return AuthError(
                "s3.denied",
                where,
                fix="Check `s3.access.key` and `s3.secret.key`; the key must be allowed to list "
                "and get, a sink's to put and delete, too.",
                config_path="s3.access.key",
            )
        if answer.status in {301, 307, 400} and answer.code in _REGIONS:
            return ConfigError(
                "s3.region", where, fix="Correct `s3.region`.", config_path="s3.region"
            )
        if answer.status in _AGAIN:
            return RetriableError("s3.unavailable", where, fix="The store is busy or ill.")
        return ConnectorError("s3.refused", where, fix="See the store's log.")

    def _unreachable(self, error: Exception) -> RetriableError:
        return RetriableError(
            "s3.unreachable",
            f"{self._access.endpoint} did not answer: {error or type(error).__name__}",
            fix="Check `s3.endpoint` and the network; it is tried again.",
            config_path="s3.endpoint",
        )

    def _unverified(self, error: Exception) -> ConfigError:
        return ConfigError(
            "s3.certificate",
            f"{self._access.endpoint} is not who it says it is: {error}",
            fix="Give the machine the certificate of the store's authority, or correct the URL.",
            config_path="s3.endpoint",
        )


_REGIONS: Final = frozenset(
    {"PermanentRedirect", "TemporaryRedirect", "AuthorizationHeaderMalformed"}
)
