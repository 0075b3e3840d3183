"""Settings of the client: members of etcd, credentials, TLS, and time-outs."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from penstock.model.errors import ConfigError

CALL_TIMEOUT_S: Final = 1.0
"""Time of one attempt of a call. A shorter time abandons a member that is only slow to fsync; a
longer one leaves too little time of a lease for the next member after one that hangs."""

RETRY_TIMEOUT_S: Final = 5.0
"""Time of all attempts of a call. Covers an election among the members (1 to 2 s); a longer time
hides from the caller that etcd is unavailable."""

CONNECT_TIMEOUT_S: Final = 30.0
"""Time that a service waits for etcd at its start. A shorter time fails a cluster whose machines
boot together; a longer one hides a wrong address."""

LEASE_TTL_S: Final = 5.0
"""Time that a lease outlives its owner. Fail-over takes this long. Each longer pause or network
failure moves the work of the owner to another instance."""

_CLUSTER: Final = re.compile(r"[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?")
_ENDPOINT: Final = re.compile(r"(\[[0-9a-fA-F:]+\]|[^:/\s]+):[0-9]{1,5}")


class Password(Protocol):
    """A text that is never printed (invariant 9), for example `Secret` of `penstock.telemetry`."""

    def reveal(self) -> str:
        """Return the text."""


@dataclass(frozen=True, slots=True)
class Tls:
    """Paths of PEM files. They are read for every new connection, so that they can be replaced."""

    authority: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    def __post_init__(self) -> None:
        """Check that certificate and key are given together.

        Raises:
            ConfigError: `etcd.tls_incomplete`.
        """
        if (self.certificate is None) != (self.key is None):
            raise ConfigError(
                "etcd.tls_incomplete",
                "a client certificate needs its key, and one of the two files is missing",
                fix="Name both files, or neither.",
                config_path=f"etcd.tls.{'key' if self.key is None else 'certificate'}",
            )


@dataclass(frozen=True, slots=True)
class EtcdSettings:
    """The members of an etcd cluster as `host:port`, and the Penstock cluster that it stores."""

    endpoints: tuple[str, ...] = ("127.0.0.1:2379",)
    cluster: str = "default"
    user: str = ""
    password: Password | None = field(default=None, repr=False)
    tls: Tls | None = None
    call_timeout_s: float = CALL_TIMEOUT_S
    retry_timeout_s: float = RETRY_TIMEOUT_S
    connect_timeout_s: float = CONNECT_TIMEOUT_S

    def __post_init__(self) -> None:
        """Check endpoints, cluster name and password.

        Raises:
            ConfigError: `etcd.bad_endpoint`, `etcd.bad_cluster` or `etcd.no_password`.
        """
        invalid = [endpoint for endpoint in self.endpoints if not _ENDPOINT.fullmatch(endpoint)]
        if invalid or not self.endpoints:
            raise ConfigError(
                "etcd.bad_endpoint",
                f"`{invalid[0]}` is not HOST:PORT" if invalid else "no endpoint is given",
                fix="Name the members as HOST:PORT, without a scheme. `etcd.tls.*` enable TLS.",
                config_path="etcd.endpoints",
            )
        if not _CLUSTER.fullmatch(self.cluster):
            raise ConfigError(
                "etcd.bad_cluster",
                f"`{self.cluster}` is not a valid name of a cluster",
                fix="Use up to 63 of a-z, 0-9, `.`, `_`, `-`, with a letter or digit at both ends.",
                config_path="cluster.name",
            )
        if self.user and self.password is None:
            raise ConfigError(
                "etcd.no_password",
                f"the etcd user `{self.user}` has no password",
                fix="Set `etcd.password`, or remove `etcd.user`.",
                config_path="etcd.password",
            )

    @property
    def prefix(self) -> str:
        """The prefix of all keys of the Penstock cluster."""
        return f"/penstock/{self.cluster}/"
