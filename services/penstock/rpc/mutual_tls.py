"""TLS with certificates on both sides: who serves and who calls, each shown by its certificate.

A caller asks for the name of the service that it means, so a certificate of another service is
refused by it; the server reads the caller's roles from the certificate that it shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from penstock.model.errors import ConfigError
from penstock.rpc.access_control import name_of
from penstock.rpc.channels import MAX_MESSAGE_BYTES, Dial, options


@dataclass(frozen=True, slots=True)
class Mutual:
    """PEM files: the authority that signs everybody's certificate, our certificate, its key. They
    are read for each new connection, so that they can be replaced while everything runs.
    """

    authority: Path
    certificate: Path
    key: Path

    def check(self) -> None:
        """Read all files once.

        Raises:
            ConfigError: `tls.file`.
        """
        self._read(self.authority, "tls.authority")
        self._read(self.certificate, "tls.certificate")
        self._read(self.key, "tls.key")

    def server(self) -> grpc.ServerCredentials:
        """Return what a server takes; callers without a certificate are refused."""
        return grpc.dynamic_ssl_server_credentials(self._now(), self._now, True)

    def dial(self, service: str) -> Dial:
        """Return what opens channels to a service, which must show that it is that one."""

        def dialled(address: str) -> grpc.aio.Channel:
            credentials = grpc.ssl_channel_credentials(
                self._read(self.authority, "tls.authority"),
                self._read(self.key, "tls.key"),
                self._read(self.certificate, "tls.certificate"),
            )
            named: list[tuple[str, Any]] = [("grpc.ssl_target_name_override", name_of(service))]
            return grpc.aio.secure_channel(
                address, credentials, options=[*options(MAX_MESSAGE_BYTES), *named]
            )

        return dialled

    def _now(self) -> grpc.ServerCertificateConfiguration:
        pair = (self._read(self.key, "tls.key"), self._read(self.certificate, "tls.certificate"))
        authority = self._read(self.authority, "tls.authority")
        return grpc.ssl_server_certificate_configuration([pair], authority)

    def _read(self, file: Path, key: str) -> bytes:
        try:
            return file.read_bytes()
        except OSError as error:
            raise ConfigError(
                "tls.file",
                f"{file} cannot be read: {error.strerror}",
                fix="Name a PEM file that the process may read.",
                config_path=key,
            ) from error
