"""How a host and a plugin find each other: go-plugin's handshake, from the environment to the one
line.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from penstock_connector._errors import ConfigError

COOKIE: Final = "PENSTOCK_PLUGIN_MAGIC_COOKIE"
NONCE: Final = "PENSTOCK_INSTANCE_NONCE"
VERSIONS: Final = "PLUGIN_PROTOCOL_VERSIONS"
SOCKET_DIR: Final = "PLUGIN_UNIX_SOCKET_DIR"
HANDSHAKE_FILE: Final = "PENSTOCK_HANDSHAKE_FILE"

_CORE_VERSION: Final = 1  # of the handshake line, as go-plugin has it
_PROTOCOL_VERSION: Final = 1  # of penstock.api.connector.v1


@dataclass(frozen=True, slots=True)
class Launch:
    """What the host told the process that it started."""

    socket: str
    credential: str = field(repr=False)
    handshake_file: str = ""

    def line(self) -> str:
        """Return the line that tells the host where to call."""
        return f"{_CORE_VERSION}|{_PROTOCOL_VERSION}|unix|{self.socket}|grpc|"

    def announce(self) -> None:
        """Print the line once, or write it to the file that the host named."""
        if not self.handshake_file:
            print(self.line(), flush=True)
            return
        # By rename, so that the host never reads half a line.
        unfinished = Path(f"{self.handshake_file}.{os.getpid()}")
        unfinished.write_text(self.line() + "\n", encoding="utf-8")
        unfinished.rename(self.handshake_file)


def launch_from(environ: Mapping[str, str]) -> Launch | None:
    """Return what the host said; None when no host started this process."""
    if not environ.get(COOKIE):
        return None
    versions = environ.get(VERSIONS, str(_PROTOCOL_VERSION)).replace(" ", "").split(",")
    if str(_PROTOCOL_VERSION) not in versions:
        raise ConfigError(
            "plugin.protocol_version",
            f"the host speaks protocol versions {','.join(versions)}, "
            f"this plugin speaks {_PROTOCOL_VERSION}",
            fix="Use a host and a plugin of the same protocol version.",
        )
    credential = environ.get(NONCE, "")
    if not credential:
        raise ConfigError(
            "plugin.no_credential",
            f"the host set no {NONCE}: callers could not be told apart",
            fix="Start plugins with a host that gives every launch its own credential.",
        )
    folder = environ.get(SOCKET_DIR) or tempfile.mkdtemp(prefix="penstock-")
    return Launch(
        socket=str(Path(folder) / f"s{os.getpid()}"),
        credential=credential,
        handshake_file=environ.get(HANDSHAKE_FILE, ""),
    )
