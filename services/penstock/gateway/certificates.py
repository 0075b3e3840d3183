"""The certificate that the gateway shows to browsers and tools, read anew when its file changes."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from penstock.model.errors import ConfigError

log = logging.getLogger(__name__)

LOOK_EVERY: Final = 30.0
"""Seconds between two looks at the files. Certificates are replaced days before they end."""


@dataclass(frozen=True, slots=True)
class Shown:
    """The files. Whoever connects must show a certificate of `clients`, where that is set."""

    certificate: Path
    key: Path
    clients: Path | None = None

    def context(self) -> ssl.SSLContext:
        """Return a context for a server; TLS 1.2 at least.

        Raises:
            ConfigError: `tls.file`.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.load(context)
        if self.clients is not None:
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def load(self, context: ssl.SSLContext) -> None:
        """Read the files into a context: handshakes from now on see them.

        Raises:
            ConfigError: `tls.file`.
        """
        try:
            context.load_cert_chain(self.certificate, self.key)
            if self.clients is not None:
                context.load_verify_locations(self.clients)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                "tls.file",
                f"{self.certificate} and {self.key} are no certificate and its key: {error}",
                fix="Name PEM files that belong together, and that the process may read.",
                config_path="listener.tls.certificate",
            ) from error

    async def follow(self, context: ssl.SSLContext) -> None:
        """Read the files anew whenever they change, until cancelled."""
        seen = self._stamp()
        while True:
            await asyncio.sleep(LOOK_EVERY)
            now = self._stamp()
            if now == seen:
                continue
            try:
                self.load(context)
            except ConfigError as error:
                log.warning("the certificate stays as it was: %s", error)
            else:
                seen = now
                log.info("the certificate was read anew")

    def _stamp(self) -> tuple[int, ...]:
        files = (self.certificate, self.key, self.clients)
        return tuple(file.stat().st_mtime_ns for file in files if file and file.exists())


def shown_of(values: Mapping[str, Any]) -> Shown | None:
    """Return what a gateway's keys say; None for no certificate.

    Raises:
        ConfigError: `config.missing`: a certificate without its key, or the other way round.
    """
    certificate, key = values["listener.tls.certificate"], values["listener.tls.key"]
    if bool(certificate) != bool(key):
        missing = "listener.tls.key" if certificate else "listener.tls.certificate"
        raise ConfigError(
            "config.missing",
            f"`{missing}` is not set: a certificate and its key belong together",
            fix="Set both, or none.",
            config_path=missing,
        )
    if not certificate:
        return None
    clients = values["listener.tls.clients"]
    return Shown(Path(certificate), Path(key), Path(clients) if clients else None)
