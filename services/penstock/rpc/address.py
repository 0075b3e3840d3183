"""The forms of an address: `unix:/path/of/socket` or `host:port`."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Final

from penstock.model.errors import ConfigError

_UNIX: Final = "unix:"
_LONGEST_PATH: Final = 107  # sockaddr_un.sun_path of Linux, without its end


def is_unix(address: str) -> bool:
    """Tell whether an address is a unix socket."""
    return address.startswith(_UNIX)


def socket_path(address: str) -> Path:
    """Return the path of a unix socket's address.

    Raises:
        ConfigError: `rpc.path_too_long`: the kernel would cut it.
    """
    path = address.removeprefix(_UNIX)
    if len(path.encode()) > _LONGEST_PATH:
        raise ConfigError(
            "rpc.path_too_long",
            f"the socket path {path} has more than {_LONGEST_PATH} bytes",
            fix="Choose a shorter state folder.",
        )
    return Path(path)


def prepare_socket(path: Path) -> None:
    """Make the folder of a socket private, and remove what a crash left behind.

    Raises:
        ConfigError: `rpc.address_in_use` when something listens there.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except OSError:
            path.unlink(missing_ok=True)
            return
    raise address_in_use(f"{_UNIX}{path}")


def address_in_use(address: str) -> ConfigError:
    """Return the error for an address that another process holds, or that is not ours. A socket's
    path is made by us, and no key says it.
    """
    return ConfigError(
        "rpc.address_in_use",
        f"cannot listen at {address}: it is taken, or no address of this machine",
        fix="Stop the other process, or choose another address.",
        config_path="" if is_unix(address) else "listen",
    )
