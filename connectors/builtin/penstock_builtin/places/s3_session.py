"""Sessions of botocore: who asks, and a way to the store that leads nowhere else."""

from __future__ import annotations

import io
import os
import ssl
import threading
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlsplit

import botocore.session
from botocore import UNSIGNED
from botocore.config import Config
from botocore.credentials import (
    AssumeRoleWithWebIdentityProvider,
    ContainerProvider,
    CredentialResolver,
    InstanceMetadataProvider,
)
from botocore.exceptions import HTTPClientError, IncompleteReadError
from botocore.httpsession import URLLib3Session
from botocore.response import StreamingBody
from botocore.utils import InstanceMetadataFetcher

from penstock_builtin.places.google_tokens import GoogleTokens, tokens_of
from penstock_builtin.places.s3_keys import S3Access, S3Key, S3Role

_TIMEOUT: Final = 20.0
"""Seconds without a byte, of a connection or an answer. Shorter fails on slow networks; longer lets
a store that hangs hold a task."""

_CONNECTIONS: Final = 32
"""Connections that are kept. More threads than these open some for a request each."""

_ANSWER_MOST: Final = 64 << 20
"""Bytes of an answer. Nothing that is asked for is longer; a store that sends more is not one."""

_METADATA_TIMEOUT: Final = 2.0
_METADATA_TRIES: Final = 3

_making = threading.Lock()
"""A session makes one client at a time."""


class S3Connection:
    """A client of botocore for one store. Threads share it.

    Attributes:
        client: The client.
    """

    def __init__(self, bucket: str, access: S3Access) -> None:
        parts = urlsplit(access.endpoint)
        hosts = frozenset({parts.netloc, f"{bucket}.{parts.netloc}"})
        role = S3Role() if access.role.is_google else access.role
        self._transport = _Transport(
            hosts, tokens_of(access.role) if access.role.is_google else None
        )
        nobody = role == S3Role() and access.key == S3Key()
        with _making:
            self.client: Any = _session(access.key, role, access.region).create_client(
                "s3",
                region_name=access.region,
                endpoint_url=access.endpoint,
                config=Config(
                    signature_version=UNSIGNED if nobody else "s3v4",
                    s3={"addressing_style": "path" if access.path_style else "virtual"},
                    retries={"mode": "standard", "total_max_attempts": 1},  # ours have a deadline
                    # stores beside Amazon's do not know the newer sums; parts have their MD5
                    request_checksum_calculation="when_required",
                    response_checksum_validation="when_required",
                    proxies={},  # variables of the machine lead no rows elsewhere
                ),
            )
        self.client.meta.events.register("before-send.s3", self._transport.send)

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()
        self.client.close()


class ElsewhereError(Exception):
    """A request would go to a host that the configuration does not name."""


class _Transport:
    """Sends each request to the configured store or not at all, follows no redirect, and reads
    nothing beyond a limit.
    """

    def __init__(self, hosts: frozenset[str], tokens: GoogleTokens | None) -> None:
        self._hosts, self._tokens = hosts, tokens
        self._session = URLLib3Session(
            verify=_authorities(), timeout=_TIMEOUT, max_pool_connections=_CONNECTIONS
        )

    def send(self, request: Any, **_: object) -> Any:
        """Return the answer, read to its end."""
        host = urlsplit(request.url).netloc
        if host not in self._hosts:
            raise ElsewhereError(host)
        if self._tokens is not None:
            request.headers["Authorization"] = f"Bearer {self._tokens.valid()}"
        request.stream_output = True  # else it is read before it can be bounded
        response = self._session.send(request)
        body = StreamingBody(response.raw, None).read(_ANSWER_MOST + 1)
        if len(body) > _ANSWER_MOST:
            response.raw.close()
            raise HTTPClientError(error="the answer is too long")
        response.raw.release_conn()
        declared = response.headers.get("Content-Length")
        if request.method != "HEAD" and declared is not None and int(declared) != len(body):
            raise IncompleteReadError(actual_bytes=len(body), expected_bytes=declared)
        response.raw = _Whole(body)
        return response

    def close(self) -> None:
        """Close the connections."""
        self._session.close()


class _Whole(io.BytesIO):
    """A body that was read, for those who want to stream it."""

    def stream(self, *_: object, **__: object) -> Iterator[bytes]:
        """Yield it."""
        yield self.read()


@lru_cache(maxsize=8)
def _session(key: S3Key, role: S3Role, region: str) -> Any:
    """Return a session: what it read of botocore's descriptions, and a role's key, are kept."""
    if role.kind == "profile":
        session = botocore.session.Session(profile=role.name or "default")
        resolver = session.get_component("credential_provider")
        for machine in ("env", "container-role", "iam-role"):  # those that the user did not name
            resolver.remove(machine)
        return session
    session = _bare_session()
    # nobody asks for times, and to parse them is most of the work of a list
    session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=str)
    if role.kind == "keys":
        if key.identity:
            session.set_credentials(key.identity, key.secret, key.token or None)
        return session
    only = CredentialResolver([_provider(role, region)])
    session.register_component("credential_provider", only)
    return session


def _bare_session() -> Any:
    """Return a session that reads nothing of the machine: `profile` alone does."""
    session = botocore.session.Session(session_vars={"profile": (None, None, None, None)})
    session.set_config_variable("config_file", os.devnull)
    return session


def _provider(role: S3Role, region: str) -> Any:
    """Return what gets the keys of a role, and renews them."""
    match role.kind:
        case "container":
            given = {ContainerProvider.ENV_VAR_FULL: role.url}
            if role.token_file:
                given[ContainerProvider.ENV_VAR_AUTH_TOKEN_FILE] = role.token_file
            return ContainerProvider(given)
        case "instance":
            metadata = InstanceMetadataFetcher(
                _METADATA_TIMEOUT, _METADATA_TRIES, base_url=role.url, env={}
            )
            return InstanceMetadataProvider(metadata)

    def sts(service: str, config: Any) -> Any:
        return _bare_session().create_client(
            service,
            region_name=region,
            endpoint_url=role.url,
            config=config.merge(Config(proxies={})),
            verify=_authorities(),
        )

    profile = {"role_arn": role.name, "web_identity_token_file": role.token_file}
    return AssumeRoleWithWebIdentityProvider(
        lambda: {"profiles": {"": profile}}, sts, profile_name="", disable_env_vars=True
    )


def _authorities() -> str | bool:
    """Return the machine's certificates instead of those that the library carries."""
    paths = ssl.get_default_verify_paths()
    return paths.cafile or paths.capath or True
