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

    def context(self) -> Renewed:
        """Return a context for a server; TLS 1.2 at least.

        Raises:
            ConfigError: `tls.file`.
        """
        return Renewed(self.read())

    def read(self) -> ssl.SSLContext:
        """Read the files.

        Raises:
            ConfigError: `tls.file`.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.certificate, self.key)
            if self.clients is not None:
                context.load_verify_locations(self.clients)
                context.verify_mode = ssl.CERT_REQUIRED
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                "tls.file",
                f"{self.certificate} and {self.key} are no certificate and its key: {error}",
                fix="Name PEM files that belong together, and that the process may read.",
                config_path="listener.tls.certificate",
            ) from error
        return context

    async def follow(self, shown: Renewed) -> None:
        """Read the files anew whenever they change, until cancelled."""
        seen = self._stamp()
        while True:
            await asyncio.sleep(LOOK_EVERY)
            now = self._stamp()
            if now == seen:
                continue
            try:
                shown.renew(self.read())
            except ConfigError as error:
                log.warning("the certificate stays as it was: %s", error)
            else:
                seen = now
                log.info("the certificate was read anew")

    def _stamp(self) -> tuple[int, ...]:
        files = (self.certificate, self.key, self.clients)
        return tuple(_changed(file) for file in files if file)


class Renewed:
    """The context of a server, whose handshakes see the newest certificates and authorities: each
    takes the context of its time, whole. One that was loaded into would keep what was withdrawn,
    and half of what does not fit.
    """

    def __init__(self, first: ssl.SSLContext) -> None:
        """Begin with a context."""
        self.context, self._now = first, first
        first.sni_callback = self._handshake

    def renew(self, context: ssl.SSLContext) -> None:
        """Show another one from now on."""
        self._now = context

    def _handshake(self, connection: ssl.SSLObject, _: str | None, __: ssl.SSLContext) -> None:
        connection.context = self._now


def _changed(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except OSError:  # it is being replaced
        return 0


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
