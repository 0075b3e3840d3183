"""Serving without a host that starts the process: where, and over which TLS."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import grpc

from penstock_connector._errors import ConfigError


@dataclass(frozen=True, slots=True)
class Listen:
    """What the command line says; the files are PEM."""

    address: str
    certificate: Path | None = None
    key: Path | None = None
    client_ca: Path | None = None

    def credentials(self) -> grpc.ServerCredentials | None:
        """Return what gRPC serves with; None without TLS.

        Raises:
            ConfigError: `plugin.tls_options`, `plugin.tls_file`.
        """
        if self.certificate is None or self.key is None:
            if (self.certificate, self.key, self.client_ca) != (None, None, None):
                raise ConfigError(
                    "plugin.tls_options",
                    "--tls-certificate and --tls-key belong together, --tls-client-ca to both",
                    fix="Give the certificate and its key.",
                )
            return None
        pair = (_read(self.key), _read(self.certificate))
        if self.client_ca is None:
            return grpc.ssl_server_credentials([pair])
        return grpc.ssl_server_credentials([pair], _read(self.client_ca), require_client_auth=True)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options to a command line."""
    parser.add_argument("--listen", metavar="HOST:PORT", help="serve here, without a host")
    parser.add_argument("--tls-certificate", metavar="FILE", type=Path, help="serve over TLS: PEM")
    parser.add_argument("--tls-key", metavar="FILE", type=Path, help="key of the certificate: PEM")
    parser.add_argument(
        "--tls-client-ca", metavar="FILE", type=Path, help="ask callers for certificates of these"
    )


def listen_of(arguments: argparse.Namespace) -> Listen | None:
    """Return what a command line says; None when a host starts the process."""
    if not arguments.listen:
        return None
    return Listen(
        arguments.listen, arguments.tls_certificate, arguments.tls_key, arguments.tls_client_ca
    )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(
            "plugin.tls_file",
            f"{path} cannot be read: {error.strerror}",
            fix="Name a PEM file that this process may read.",
        ) from None
