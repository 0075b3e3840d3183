"""Where an instance listens, and where others reach it."""

from __future__ import annotations

import ipaddress
import re
from typing import Final

_HOST_PORT: Final = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[^:/\s\[\]]+):(?P<port>[0-9]{1,5})")


def advertised(advertise: str, listening: str) -> str:
    """Return the address that others reach a server by: what was said, with the port it got."""
    port = listening.rpartition(":")[2]
    if not advertise:
        return listening
    if advertise.count(":") > 1 and not advertise.startswith("["):
        return f"[{advertise}]:{port}"  # an IPv6 address alone, as Kubernetes says it
    said, _, said_port = advertise.rpartition(":")
    if said and said_port.isdecimal():
        return advertise if int(said_port) else f"{said}:{port}"
    return f"{advertise}:{port}"


def well_formed(address: str) -> bool:
    """Tell whether it is HOST:PORT. gRPC takes a host alone too, for port 443."""
    match = _HOST_PORT.fullmatch(address)
    return match is not None and int(match["port"]) < 1 << 16


def everywhere(address: str) -> bool:
    """Tell whether it means all addresses of a machine: whoever dials that reaches itself."""
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
