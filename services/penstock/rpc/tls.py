"""What a client shows and trusts when it dials over TLS, as values that also fit into a ticket."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import grpc


@dataclass(frozen=True, slots=True)
class ClientTls:
    """PEM texts. An empty `ca` trusts what the machine trusts; an empty `certificate` shows none;
    `server_name` is the name in the server's certificate, when it is not the one that is dialled.
    """

    ca: str = ""
    certificate: str = ""
    key: str = field(default="", repr=False)
    server_name: str = ""

    def credentials(self) -> grpc.ChannelCredentials:
        """Return what gRPC takes."""
        return grpc.ssl_channel_credentials(
            self.ca.encode() or None, self.key.encode() or None, self.certificate.encode() or None
        )

    def options(self) -> list[tuple[str, str]]:
        """Return the options of the channel that belong to it."""
        return [("grpc.ssl_target_name_override", self.server_name)] if self.server_name else []

    def to_dict(self) -> dict[str, str]:
        """Return the texts for a ticket: they go to executors, and nowhere else (invariant 9)."""
        return {
            "ca": self.ca,
            "certificate": self.certificate,
            "key": self.key,
            "server_name": self.server_name,
        }


def from_dict(texts: Mapping[str, str] | None) -> ClientTls | None:
    """Return what a ticket says; None for a connection without TLS."""
    return None if texts is None else ClientTls(**texts)
