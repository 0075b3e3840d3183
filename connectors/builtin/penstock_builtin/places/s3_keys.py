"""How an S3-compatible store is reached: keys of a configuration, and URLs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from penstock_connector import ConfigError, key
from penstock_connector.reach import Reach

_SCHEME: Final = "s3://"


def is_s3(path: str) -> bool:
    """Tell whether a path is of an object store."""
    return path.startswith(_SCHEME)


@dataclass(frozen=True)
class S3Keys:
    """How a store is reached. What is empty comes from the `AWS_…` variables of the process."""

    s3_endpoint: str = key("", doc="URL of the store; empty: AWS_ENDPOINT_URL, Amazon's.")
    s3_region: str = key("", doc="Region; empty: AWS_REGION, us-east-1.")
    s3_access_key: str = key(
        "", type="password", doc="Id of the key; empty: AWS_ACCESS_KEY_ID, nobody's."
    )
    s3_secret_key: str = key(
        "", type="password", doc="The key's secret; empty: AWS_SECRET_ACCESS_KEY."
    )
    s3_session_token: str = key(
        "", type="password", doc="Of a key that was lent; empty: AWS_SESSION_TOKEN."
    )
    s3_path_style: bool = key(
        True, doc="The bucket is in the path of URLs; false: in their host, as Amazon has it."
    )

    def require_store(self, reach: Reach, urls: Iterable[str]) -> None:
        """Raise when the store or one of the URLs of `path` may not be reached.

        Raises:
            ConfigError: `reach.host`, `reach.folder`, and as `access`.
        """
        if reach.everything:
            return  # what is wrong with the keys is told where the store is opened
        reach.require_url(self.access().endpoint, "s3.endpoint")
        for url in urls:
            reach.require_object(url, "path")

    def access(self) -> S3Access:
        """Return what requests need.

        Raises:
            ConfigError: half of a key, or an endpoint that is none.
        """
        endpoint = self.s3_endpoint or _environment("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
        region = self.s3_region or _environment("AWS_REGION", "AWS_DEFAULT_REGION") or "us-east-1"
        identity = self.s3_access_key or _environment("AWS_ACCESS_KEY_ID")
        secret = self.s3_secret_key or _environment("AWS_SECRET_ACCESS_KEY")
        token = self.s3_session_token or _environment("AWS_SESSION_TOKEN")
        if bool(identity) != bool(secret):
            raise ConfigError(
                "config.missing",
                "a key of the store is an id and a secret, and one of them is missing",
                fix="Set `s3.access.key` and `s3.secret.key`, or neither for a public bucket.",
                config_path="s3.secret.key" if identity else "s3.access.key",
            )
        path_style = self.s3_path_style and bool(endpoint)
        endpoint = endpoint or f"https://s3.{region}.amazonaws.com"
        parts = urlsplit(endpoint)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query:
            raise ConfigError(
                "config.invalid_value",
                f"{endpoint!r} is no URL of a store",
                fix="For instance https://storage.example.com, or http://127.0.0.1:9000.",
                config_path="s3.endpoint",
            )
        return S3Access(endpoint.rstrip("/"), region, identity, secret, token, path_style)


@dataclass(frozen=True, slots=True)
class S3Access:
    """A store, and who asks it. Never printed."""

    endpoint: str
    region: str
    identity: str
    secret: str
    token: str
    path_style: bool

    def __repr__(self) -> str:
        return f"S3Access({self.endpoint!r}, ***)"


def _environment(*names: str) -> str:
    return next((os.environ[name] for name in names if os.environ.get(name)), "")


@dataclass(frozen=True, slots=True)
class S3Url:
    """A bucket, and how keys in it begin."""

    bucket: str
    prefix: str

    @classmethod
    def parse(cls, url: str) -> S3Url:
        """Return the parts of `s3://bucket/prefix`. Nothing in it is escaped: a key is a text.

        Raises:
            ConfigError: there is no bucket.
        """
        bucket, _, prefix = url.removeprefix(_SCHEME).partition("/")
        if not bucket or set(bucket) & set("?#@: "):
            raise ConfigError(
                "config.invalid_value",
                f"{url!r} names no bucket",
                fix="Write s3://bucket or s3://bucket/prefix; the store goes to `s3.endpoint`.",
                config_path="path",
            )
        return cls(bucket, prefix)

    def at(self, key_: str) -> str:
        """Return the URL of a key."""
        return f"{_SCHEME}{self.bucket}/{key_}"
