"""Real Redis for tests, on a private port and folder.

    with RedisServer(folder) as server:
        server.client.xadd("orders", {"n": 1})

Debian's packages are unpacked into a cache folder (`support.debian`).
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import redis

from penstock_kit.testing import wait_until
from support import debian
from support.processes import DIES_WITH_US, free_ports

PASSWORD = "secret-of-redis"
_PACKAGES = ("redis-server", "redis-tools", "libjemalloc2", "liblzf1")


class RedisServer:
    """One server. Leaving the `with` block kills it.

    Attributes:
        port: Without TLS; the user `default` needs `PASSWORD`.
        tls_port: With TLS, where a certificate was given.
        socket: A socket of this machine.
    """

    def __init__(
        self, folder: Path, *, certificate: Sequence[Path] = (), lines: Sequence[str] = ()
    ) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.port, self.tls_port, self._bus_port = free_ports(3)
        self.socket = Path("/tmp", f"penstock-redis-{self.port}.sock")
        self._certificate, self._lines = certificate, list(lines)
        self._process: subprocess.Popen[bytes] | None = None
        self._client: redis.Redis | None = None

    @property
    def keys(self) -> dict[str, str]:
        """Keys of a connector that connects to it."""
        return {"redis.uri": f"redis://127.0.0.1:{self.port}", "redis.password": PASSWORD}

    @property
    def client(self) -> Any:
        """A bare client, whose answers are bytes."""
        if self._client is None:
            self._client = redis.Redis("127.0.0.1", self.port, password=PASSWORD, socket_timeout=30)
        return self._client

    def configure(self, *lines: str) -> None:
        """Set lines of its configuration, for its next start."""
        self._lines = list(lines)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        lines = [
            f"port {self.port}", f"cluster-port {self._bus_port}", "bind 127.0.0.1",
            f"dir {self.folder}", 'save ""',
            "appendonly yes", "appendfsync always", f"unixsocket {self.socket}",
            f"requirepass {PASSWORD}", "masterauth " + PASSWORD, *self._lines,
        ]  # fmt: skip
        if self._certificate:
            ca, cert, key = self._certificate
            lines += [
                f"tls-port {self.tls_port}", f"tls-ca-cert-file {ca}", f"tls-cert-file {cert}",
                f"tls-key-file {key}",
            ]  # fmt: skip
        file = self.folder / "redis.conf"
        file.write_text("\n".join(lines) + "\n")
        tree = debian.unpacked("redis", *_PACKAGES)
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*DIES_WITH_US, str(tree / "usr/bin/redis-server"), str(file)],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=debian.environment(tree),
            )  # fmt: skip
        wait_until(self._answers, 20, "redis answers")

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "log").read_text()[-2000:]
        try:
            return bool(self.client.ping())
        except redis.RedisError:
            return False

    def kill(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(20)
            self._process = None

    def lose_everything(self) -> None:
        """Remove its files; it starts empty."""
        assert self._process is None
        for file in [*self.folder.rglob("*.aof"), *self.folder.rglob("*.rdb")]:
            file.unlink()
        for file in self.folder.rglob("*.manifest"):
            file.unlink()

    def pause(self, *, is_paused: bool) -> None:
        """Let it hang, or go on."""
        assert self._process is not None
        self._process.send_signal(19 if is_paused else 18)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._client is not None:
            self._client.close()
        self.kill()
        self.socket.unlink(missing_ok=True)
