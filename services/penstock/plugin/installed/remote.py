"""A plugin that runs elsewhere: its manifest has an address instead of a command.

    name = "warehouse"
    version = "2.1.0"
    address = "grpcs://plugins.example:9443"     # or grpc://host:port, on a network of its own

    [tls]                                        # all of it is optional; files beside the manifest
    ca = "ca.pem"                                # who is trusted; else what this machine trusts
    certificate = "worker.pem"                   # what is shown
    key = "worker.key"
    server_name = "plugins.example"              # the name in the server's certificate

There is no process to start or to kill. It is connected to when it is needed, and anew after the
connection was lost; several hosts may share it, so nobody asks it to end.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.model.errors import AuthError, ConfigError, PenstockError, RetriableError
from penstock.plugin.errors import printable
from penstock.rpc.tls import ClientTls

_URL: Final = re.compile(r"(grpcs?)://((?:[\w.-]+|\[[0-9A-Fa-f:]+\]):\d{1,5})/?")
_MOST_PEM_BYTES: Final = 1 << 20
_TLS_WORDS: Final = ("handshake", "ssl_", "certificate", "tls", "peer name", "verification")


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Where the PEM files are; they are read at each connection, so they may be renewed."""

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    server_name: str = ""

    def read(self) -> ClientTls:
        """Return what is in them.

        Raises:
            ConfigError: `plugin.tls_file`.
        """
        return ClientTls(_pem(self.ca), _pem(self.certificate), _pem(self.key), self.server_name)


@dataclass(frozen=True, slots=True)
class Remote:
    """Where a plugin is: `host:port`, and its TLS."""

    address: str
    tls: TlsFiles | None = None


def parse_address(text: str) -> tuple[str, bool]:
    """Return `host:port`, and whether it is reached over TLS.

    Raises:
        ValueError: it is no such address.
    """
    match = _URL.fullmatch(text)
    if match is None or not 0 < int(match[2].rpartition(":")[2]) < 1 << 16:
        raise ValueError(f"is {printable(text, 100)!r}, not like grpcs://host:9443")
    return match[2], match[1] == "grpcs"


class Away:
    """The life of a plugin elsewhere, as far as we know of it: it ends for us when it does not
    answer. `answers` asks it, within some seconds.
    """

    pid: Final = 0

    def __init__(self, who: str, address: str) -> None:
        self.exited: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.answers: Callable[[float], Awaitable[bool]] | None = None
        self._who, self._address = who, address

    async def ended(self, within: float) -> bool:
        """Ask whether it is there: one that does not answer in time has ended for us."""
        if not self.exited.done() and self.answers and not await self.answers(within):
            await self.end()
        return self.exited.done()

    def death(self) -> PenstockError | None:
        """Return that it was lost, None while it answers."""
        if not self.exited.done():
            return None
        return RetriableError(
            "plugin.lost",
            f"plugin {self._who} at {self._address} does not answer any more",
            fix="It is connected to again by itself; see whether it runs and can be reached.",
        )

    async def end(self) -> None:
        """Let go of it; it goes on for others."""
        if not self.exited.done():
            self.exited.set_result(0)


def unreachable(who: str, address: str, why: str) -> PenstockError:
    """Return the error for a plugin that could not be connected to."""
    text = f"plugin {who} at {address} cannot be reached: {printable(why, 500)}"
    if any(word in why.lower() for word in _TLS_WORDS):
        return AuthError(
            "plugin.tls_refused",
            text,
            config_path="tls",
            fix="Let `ca` of the manifest be the authority of the server's certificate, "
            "`server_name` the name in it, and show a `certificate` that it trusts.",
        )
    return RetriableError(
        "plugin.unreachable",
        text,
        config_path="address",
        fix="Start the plugin there (`--listen`), or correct `address` in its manifest. One that "
        "serves over TLS hangs up without a word on who does not, or whose certificate it does not "
        "trust.",
    )


def _pem(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        with path.open("rb") as file:
            return file.read(_MOST_PEM_BYTES).decode("ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            "plugin.tls_file",
            f"{path}: {error.strerror if isinstance(error, OSError) else 'is no PEM text'}",
            config_path="tls",
            fix="Name a PEM file that the worker may read.",
        ) from None
