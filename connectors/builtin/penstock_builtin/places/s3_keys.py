"""How an object store is reached, and as whom: keys of a configuration, and URLs.

Google's store speaks S3, too, but for who asks: `gs://` wants a token instead of a signature.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from penstock_connector import ConfigError, key
from penstock_connector.reach import Reach

_SCHEMES: Final = ("s3", "gs")
_GOOGLE: Final = "https://storage.googleapis.com"
_HADOOP: Final = "hdfs://"
_OTHER: Final = re.compile(r"[a-z][a-z0-9+.-]+://")
CONTAINER: Final = "http://169.254.170.2"
"""Where ECS tells a container its credentials, at the path of the relative variable."""

INSTANCE: Final = "http://169.254.169.254/"
"""Where EC2 and Google tell a machine its credentials."""


def is_object(path: str) -> bool:
    """Return whether a path is of an object store."""
    return path.startswith(tuple(f"{scheme}://" for scheme in _SCHEMES))


def require_known(path: str, config_path: str) -> None:
    """Refuse a URL of a store that is neither read nor written: else it would be a local path.

    Raises:
        ConfigError: `config.invalid_value`.
    """
    other = _OTHER.match(path)
    if other and not is_object(path) and other[0] != _HADOOP:
        raise ConfigError(
            "config.invalid_value",
            f"{path!r}: {other[0]} is no place of files",
            fix="Write the path of a file, s3://bucket/prefix, gs://bucket/prefix or "
            "hdfs://host:8020/folder.",
            config_path=config_path,
        )


@dataclass(frozen=True)
class S3Keys:
    """How a store is reached. What is empty comes from the `AWS_…` variables of the process."""

    s3_endpoint: str = key("", doc="URL of the store; empty: AWS_ENDPOINT_URL, Amazon's.")
    s3_region: str = key("", doc="Region; empty: AWS_REGION, us-east-1.")
    s3_access_key: str = key(
        "", type="password", doc="Id of the key; empty: AWS_ACCESS_KEY_ID, else anonymous."
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
    s3_credentials: str = key(
        "keys",
        doc="Where the key comes from: `keys` are those above; a role gets one that is renewed: "
        "`web-identity` for a token (IRSA), `container` (ECS, EKS), `instance` (EC2), `profile` "
        "of the worker's `~/.aws`.",
        choices=("keys", "web-identity", "container", "instance", "profile"),
    )
    s3_role_arn: str = key("", doc="Role of `web-identity`; empty: AWS_ROLE_ARN.")
    s3_token_file: str = key(
        "",
        doc="File of the token of `web-identity` and `container`; empty: "
        "AWS_WEB_IDENTITY_TOKEN_FILE, AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE.",
    )
    s3_sts_endpoint: str = key(
        "", doc="URL where `web-identity` gets keys; empty: Amazon's STS of the region."
    )
    s3_container_url: str = key(
        "",
        doc="URL where `container` gets keys; empty: AWS_CONTAINER_CREDENTIALS_FULL_URI, "
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI.",
    )
    s3_profile: str = key("", doc="Name of the `profile`; empty: AWS_PROFILE, default.")
    gcs_credentials: str = key(
        "key",
        doc="Where the token of gs:// comes from: `key` is `gcs.key`, without it anonymous; "
        "`instance` is the role of the machine or the pod (GCE, GKE).",
        choices=("key", "instance"),
    )
    gcs_key: str = key("", type="password", doc="Key of a service account of Google, in JSON.")
    gcs_endpoint: str = key("", doc="URL of the store of gs://; empty: Google's.")

    def require_store(self, reach: Reach, urls: Iterable[str]) -> None:
        """Raise when the store, one of the URLs of `path`, or where a key comes from may not be
        reached.

        Raises:
            ConfigError: `reach.host`, `reach.folder`, and as `access`.
        """
        if reach.everything:
            return  # what is wrong with the keys is told where the store is opened
        for url in urls:
            access = self.access(url)
            reach.require_url(access.endpoint, f"{access.group}.endpoint")
            reach.require_object(url, "path")
            _require_role(reach, access.role)

    def access(self, url: str) -> S3Access:
        """Return what requests to the store of a URL need.

        Raises:
            ConfigError: half of a key, a key beside a role, half of a role, or an endpoint that is
                none.
        """
        if url.startswith("gs://"):
            return self._google()
        endpoint = self.s3_endpoint or _environment("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
        region = self.s3_region or _environment("AWS_REGION", "AWS_DEFAULT_REGION") or "us-east-1"
        path_style = self.s3_path_style and bool(endpoint)
        endpoint = endpoint or f"https://s3.{region}.amazonaws.com"
        _require_url(endpoint, "s3.endpoint")
        key_, role = self._key(), self._role(region)
        return S3Access(endpoint.rstrip("/"), region, path_style, key_, role)

    def _google(self) -> S3Access:
        endpoint = self.gcs_endpoint or _GOOGLE
        _require_url(endpoint, "gcs.endpoint")
        if self.gcs_credentials == "key":
            role = _google_key(self.gcs_key) if self.gcs_key else S3Role()
        elif self.gcs_key:
            raise ConfigError(
                "config.contradiction",
                "`gcs.credentials=instance` gets a token, and a key is set, too",
                fix="Leave out `gcs.key` or `gcs.credentials`.",
                config_path="gcs.credentials",
            )
        else:
            role = S3Role("google-instance", url=INSTANCE)
        return S3Access(endpoint.rstrip("/"), "auto", path_style=True, role=role, group="gcs")

    def _key(self) -> S3Key:
        if self.s3_credentials != "keys":
            if self.s3_access_key or self.s3_secret_key or self.s3_session_token:
                raise ConfigError(
                    "config.contradiction",
                    f"`s3.credentials={self.s3_credentials}` gets a key, and one is set, too",
                    fix="Leave out `s3.access.key`, `s3.secret.key` and `s3.session.token`, or "
                    "`s3.credentials`.",
                    config_path="s3.credentials",
                )
            return S3Key()
        identity = self.s3_access_key or _environment("AWS_ACCESS_KEY_ID")
        secret = self.s3_secret_key or _environment("AWS_SECRET_ACCESS_KEY")
        if bool(identity) != bool(secret):
            raise ConfigError(
                "config.missing",
                "a key of the store is an id and a secret, and one of them is missing",
                fix="Set `s3.access.key` and `s3.secret.key`, or neither for a public bucket.",
                config_path="s3.secret.key" if identity else "s3.access.key",
            )
        return S3Key(identity, secret, self.s3_session_token or _environment("AWS_SESSION_TOKEN"))

    def _require_used(self) -> None:
        """Raise when a key of a role is set that `s3.credentials` does not use."""
        users = {
            "s3.role.arn": (self.s3_role_arn, ("web-identity",)),
            "s3.token.file": (self.s3_token_file, ("web-identity", "container")),
            "s3.sts.endpoint": (self.s3_sts_endpoint, ("web-identity",)),
            "s3.container.url": (self.s3_container_url, ("container",)),
            "s3.profile": (self.s3_profile, ("profile",)),
        }
        for name, (value, kinds) in users.items():
            if value and self.s3_credentials not in kinds:
                raise ConfigError(
                    "config.contradiction",
                    f"`{name}` has no effect with `s3.credentials={self.s3_credentials}`",
                    fix=f"Set `s3.credentials={kinds[0]}`, or leave out `{name}`.",
                    config_path=name,
                )

    def _role(self, region: str) -> S3Role:
        self._require_used()
        match self.s3_credentials:
            case "web-identity":
                arn = self.s3_role_arn or _environment("AWS_ROLE_ARN")
                file = self.s3_token_file or _environment("AWS_WEB_IDENTITY_TOKEN_FILE")
                _require("web-identity", {"s3.role.arn": arn, "s3.token.file": file})
                url = self.s3_sts_endpoint or f"https://sts.{region}.amazonaws.com"
                _require_url(url, "s3.sts.endpoint")
                return S3Role("web-identity", arn, file, url)
            case "container":
                path = _environment("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
                url = self.s3_container_url or _environment("AWS_CONTAINER_CREDENTIALS_FULL_URI")
                url = url or (f"{CONTAINER}{path}" if path else "")
                _require("container", {"s3.container.url": url})
                _require_url(url, "s3.container.url")
                named = "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"
                return S3Role("container", "", self.s3_token_file or _environment(named), url)
            case "instance":
                return S3Role("instance", url=INSTANCE)
            case "profile":
                return S3Role("profile", self.s3_profile or _environment("AWS_PROFILE"))
        return S3Role()


@dataclass(frozen=True, slots=True)
class S3Key:
    """A key of a store; without an id it is nobody's."""

    identity: str = field(default="", repr=False)
    secret: str = field(default="", repr=False)
    token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class S3Role:
    """Where a key comes from that is renewed.

    Attributes:
        kind: As `s3.credentials` says; `google-key` and `google-instance` get tokens.
        name: Of the role, the profile, or the account.
        token_file: A file whose content shows who we are.
        url: Where the key or the token is asked for.
        private: The key by which an account shows who it is.
    """

    kind: str = "keys"
    name: str = ""
    token_file: str = ""
    url: str = ""
    private: str = field(default="", repr=False)

    @property
    def is_google(self) -> bool:
        """Whether it gets tokens of Google."""
        return self.kind.startswith("google-")


@dataclass(frozen=True, slots=True)
class S3Access:
    """A store, and who asks it; `group` is what its keys begin with."""

    endpoint: str
    region: str
    path_style: bool
    key: S3Key = S3Key()
    role: S3Role = S3Role()
    group: str = "s3"


def _require_role(reach: Reach, role: S3Role) -> None:
    """Refuse a role that is had where the node does not let a connector go."""
    reach.require_path(role.token_file, "s3.token.file")
    match role.kind:
        case "web-identity":
            reach.require_url(role.url, "s3.sts.endpoint")
        case "container":
            reach.require_url(role.url, "s3.container.url")
        case "instance":
            reach.require_url(role.url, "s3.credentials")
        case "google-key":
            reach.require_url(role.url, "gcs.key")
        case "google-instance":
            reach.require_url(role.url, "gcs.credentials")
        case "profile":  # it may name other files and servers, and a program to start
            reach.require_path(str(Path("~/.aws").expanduser()), "s3.profile")
            reach.require_host("whatever a profile names", "s3.profile")


def _google_key(text: str) -> S3Role:
    """Return the account of a key. Its text is shown to nobody."""
    try:
        told = json.loads(text)
        name, private, url = told["client_email"], told["private_key"], told["token_uri"]
        if told["type"] != "service_account":
            raise ValueError
    except (ValueError, KeyError, TypeError):
        raise ConfigError(
            "config.invalid_value",
            "`gcs.key` is no key of a service account",
            fix="Set the whole text of the JSON file that Google gave for the key.",
            config_path="gcs.key",
        ) from None
    _require_url(url, "gcs.key")
    return S3Role("google-key", name, url=url, private=private)


def _environment(*names: str) -> str:
    return next((os.environ[name] for name in names if os.environ.get(name)), "")


def _require(kind: str, values: dict[str, str]) -> None:
    for name, value in values.items():
        if not value:
            raise ConfigError(
                "config.missing",
                f"`s3.credentials={kind}` needs `{name}`",
                fix=f"Set `{name}`; a variable of the worker is `${{env:NAME}}`.",
                config_path=name,
            )


def _require_url(url: str, path: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query:
        raise ConfigError(
            "config.invalid_value",
            f"{url!r} is no URL of a server",
            fix="For instance https://storage.example.com, or http://127.0.0.1:9000.",
            config_path=path,
        )


@dataclass(frozen=True, slots=True)
class S3Url:
    """A bucket of a kind of store, and how keys in it begin."""

    scheme: str
    bucket: str
    prefix: str

    @classmethod
    def parse(cls, url: str) -> S3Url:
        """Return the parts of `s3://bucket/prefix`. Nothing in it is escaped: a key is a text.

        Raises:
            ConfigError: there is no bucket.
        """
        scheme, _, rest = url.partition("://")
        bucket, _, prefix = rest.partition("/")
        if not bucket or set(bucket) & set("?#@: "):
            raise ConfigError(
                "config.invalid_value",
                f"{url!r} names no bucket",
                fix=f"Write {scheme}://bucket or {scheme}://bucket/prefix; the store goes to "
                "`s3.endpoint`.",
                config_path="path",
            )
        return cls(scheme, bucket, prefix)

    def at(self, key_: str) -> str:
        """Return the URL of a key."""
        return f"{self.scheme}://{self.bucket}/{key_}"
