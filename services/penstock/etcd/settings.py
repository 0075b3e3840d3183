"""Where etcd is, how it is entered, and the times that everything here waits."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from penstock.model.errors import ConfigError

CALL_TIMEOUT: Final = 1.0
"""Seconds that one attempt of a call may take. Shorter gives up on a member that is only slow to
fsync; longer leaves too little of a lease's time for the next member after one that hangs."""

TRY_FOR: Final = 5.0
"""Seconds that a call is tried again at other members. Covers an election among them (1 to 2 s);
longer would hide from the caller that etcd is away."""

START_FOR: Final = 30.0
"""Seconds that a service waits for etcd at its start. Shorter fails a cluster whose machines boot
together; longer hides a wrong address."""

LEASE_TTL: Final = 5.0
"""Seconds that a lease outlives its owner. Fail-over takes this long, and every pause or network
trouble that is longer moves the owner's work away."""

_CLUSTER: Final = re.compile(r"[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?")
_ENDPOINT: Final = re.compile(r"(\[[0-9a-fA-F:]+\]|[^:/\s]+):[0-9]{1,5}")


class Password(Protocol):
    """A text that nothing prints (invariant 9); `penstock.telemetry.Secret` is one."""

    def reveal(self) -> str:
        """Return the text."""


@dataclass(frozen=True, slots=True)
class Tls:
    """PEM files. They are read for every new connection, so that they can be replaced."""

    authority: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    def __post_init__(self) -> None:
        """Refuse half a pair.

        Raises:
            ConfigError: `etcd.tls_incomplete`.
        """
        if (self.certificate is None) != (self.key is None):
            raise ConfigError(
                "etcd.tls_incomplete",
                "a client certificate and its key belong together, and one is missing",
                fix="Give both files, or neither.",
                config_path=f"etcd.tls.{'key' if self.key is None else 'certificate'}",
            )


@dataclass(frozen=True, slots=True)
class EtcdSettings:
    """Members of one etcd cluster as `host:port`, and the Penstock cluster that lives in it."""

    endpoints: tuple[str, ...] = ("127.0.0.1:2379",)
    cluster: str = "default"
    user: str = ""
    password: Password | None = field(default=None, repr=False)
    tls: Tls | None = None
    call_timeout: float = CALL_TIMEOUT
    try_for: float = TRY_FOR
    start_for: float = START_FOR

    def __post_init__(self) -> None:
        """Refuse what cannot be.

        Raises:
            ConfigError: `etcd.bad_endpoint`, `etcd.bad_cluster` or `etcd.no_password`.
        """
        bad = [endpoint for endpoint in self.endpoints if not _ENDPOINT.fullmatch(endpoint)]
        if bad or not self.endpoints:
            raise ConfigError(
                "etcd.bad_endpoint",
                f"`{bad[0]}` is not HOST:PORT" if bad else "no endpoint is given",
                fix="Name the members as HOST:PORT, without a scheme; TLS is a setting of its own.",
                config_path="etcd.endpoints",
            )
        if not _CLUSTER.fullmatch(self.cluster):
            raise ConfigError(
                "etcd.bad_cluster",
                f"`{self.cluster}` cannot be the name of a cluster",
                fix="Use up to 63 of a-z, 0-9, `.`, `_`, `-`, with a letter or digit at both ends.",
                config_path="cluster.name",
            )
        if self.user and self.password is None:
            raise ConfigError(
                "etcd.no_password",
                f"the etcd user `{self.user}` has no password",
                fix="Give a password, or no user.",
                config_path="etcd.password",
            )

    @property
    def prefix(self) -> str:
        """What every key of the Penstock cluster begins with."""
        return f"/penstock/{self.cluster}/"
