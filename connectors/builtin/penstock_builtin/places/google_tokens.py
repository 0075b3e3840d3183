"""Tokens of Google: of a service account by its key, of a machine or a pod by its metadata.

Two requests that are written down in standards, and no library: Google's asks other servers, too,
beside those that a configuration names.
"""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlencode

import httpcore
import jwt

from penstock_builtin.places.s3_keys import S3Role
from penstock_connector import AuthError, RetriableError

_SCOPE: Final = "https://www.googleapis.com/auth/devstorage.read_write"
_OF_MACHINE: Final = "computeMetadata/v1/instance/service-accounts/default/token"
_GRANT: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_LASTS: Final = 3600
_EARLY: Final = 300.0
"""Seconds before its end at which a token is no longer used: a part that is on its way with it must
still find it valid."""

_TIMEOUT: Final = 10.0
_ANSWER_MOST: Final = 1 << 20


class GoogleTokens:
    """The token of an account, asked for when it is needed. Threads share it."""

    def __init__(self, role: S3Role) -> None:
        self._role = role
        self._token, self._until = "", 0.0
        self._asking = threading.Lock()

    def valid(self) -> str:
        """Return a token.

        Raises:
            AuthError: `s3.denied`.
            RetriableError: `s3.unreachable`.
        """
        with self._asking:
            if time.monotonic() >= self._until:
                told = self._asked()
                self._token = told["access_token"]
                self._until = time.monotonic() + max(told.get("expires_in", 0) - _EARLY, 1)
            return self._token

    def _asked(self) -> dict[str, Any]:
        role = self._role
        if role.kind == "google-instance":
            return _answer("GET", role.url + _OF_MACHINE, {"Metadata-Flavor": "Google"}, None)
        now = int(time.time())
        claims = {
            "iss": role.name, "scope": _SCOPE, "aud": role.url, "iat": now, "exp": now + _LASTS,
        }  # fmt: skip
        try:
            signed = jwt.encode(claims, role.private, "RS256")
        except (ValueError, TypeError, jwt.PyJWTError):
            raise _denied("the private key in `gcs.key` is none") from None
        form = urlencode({"grant_type": _GRANT, "assertion": signed}).encode()
        return _answer(
            "POST", role.url, {"Content-Type": "application/x-www-form-urlencoded"}, form
        )


@lru_cache(maxsize=8)
def tokens_of(role: S3Role) -> GoogleTokens:
    """Return the tokens of an account, which all stores share."""
    return GoogleTokens(role)


def _answer(
    method: str, url: str, headers: Mapping[bytes | str, bytes | str], body: bytes | None
) -> dict[str, Any]:
    """Ask once. A redirect is not followed."""
    timeout = dict.fromkeys(("connect", "read", "write", "pool"), _TIMEOUT)
    try:
        with (
            httpcore.ConnectionPool(ssl_context=ssl.create_default_context()) as pool,
            pool.stream(
                method, url, headers=headers, content=body, extensions={"timeout": timeout}
            ) as answer,
        ):
            text = b""
            for chunk in answer.iter_stream():
                text += chunk
                if len(text) > _ANSWER_MOST:
                    raise ValueError
            status = answer.status
        told = json.loads(text) if status == 200 else {}
        if status == 200 and isinstance(told["access_token"], str):
            return dict(told)
    except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError) as error:
        raise RetriableError(
            "s3.unreachable",
            f"{url} gives no token: {error or type(error).__name__}",
            fix="Check `gcs.credentials` and the network; it is tried again.",
            config_path="gcs.credentials",
        ) from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise _denied(f"what {url} answers is no token") from None
    if status >= 500 or status == 429:
        raise RetriableError(
            "s3.unreachable",
            f"{url} gives no token: it answers {status}",
            fix="It is tried again.",
            config_path="gcs.credentials",
        )
    raise _denied(f"{url} gives no token: it answers {status}")


def _denied(why: str) -> AuthError:
    return AuthError(
        "s3.denied",
        why,
        fix="Check `gcs.credentials` and `gcs.key`.",
        config_path="gcs.credentials",
    )
