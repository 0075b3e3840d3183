"""Listeners of the gateway, as Kafka Connect's `listeners` names them, and their certificate.

The certificate is loaded again when its files change.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from penstock.model.errors import ConfigError

DEFAULT_LISTENERS: Final = ("http://127.0.0.1:8083",)
"""The default: Kafka Connect's port, reachable from this machine only."""

NO_LISTENER: Final = "none"


class ListenerScope(Enum):
    """The routes of a listener: all, those of administrators (`/admin/…`), the others, or those of
    RocketMQ Connect.
    """

    ALL = auto()
    ADMIN = auto()
    REST = auto()
    ROCKETMQ = auto()


_KEYS: Final = {
    ListenerScope.ADMIN: "admin.listeners",
    ListenerScope.ROCKETMQ: "listeners.rocketmq",
}


@dataclass(frozen=True, slots=True)
class Listener:
    """HOST:PORT of a listener, whether it uses TLS, and which routes it has."""

    address: str
    tls: bool = False
    scope: ListenerScope = ListenerScope.ALL

    @property
    def key(self) -> str:
        """The configuration key that names the listener."""
        return _KEYS.get(self.scope, "listeners")

    @property
    def url(self) -> str:
        """The listener as a URL."""
        return f"{'https' if self.tls else 'http'}://{self.address}"


def parse_listeners(
    listeners: Iterable[str], admin: Iterable[str] | None = None, rocketmq: Iterable[str] = ()
) -> list[Listener]:
    """Return the listeners of `listeners`, `admin.listeners` and `listeners.rocketmq`.

    `http://:8083` listens on all addresses of the machine. Without `admin` (None) those of
    `listeners` have all routes but RocketMQ Connect's.

    Raises:
        ConfigError: `config.bad_value`.
    """
    theirs = _parse_all(rocketmq, ListenerScope.ROCKETMQ)
    if admin is None:
        return [*_parse_all(listeners, ListenerScope.ALL), *theirs]
    ours = _parse_all(listeners, ListenerScope.REST)
    return [*ours, *_parse_all(admin, ListenerScope.ADMIN), *theirs]


def listeners_from_settings(values: Mapping[str, Any]) -> list[Listener]:
    """Return the listeners that the keys of a gateway name.

    Raises:
        ConfigError: `config.bad_value`.
    """
    return parse_listeners(
        values["listeners"] or (), values["admin.listeners"], values["listeners.rocketmq"] or ()
    )


def _parse_all(listeners: Iterable[str], scope: ListenerScope) -> list[Listener]:
    return [_parse_listener(listener, scope) for listener in listeners if listener != NO_LISTENER]


def _parse_listener(listener: str, scope: ListenerScope) -> Listener:
    error = _invalid_listener(listener, Listener("", scope=scope).key)
    try:
        parts = urlsplit(listener)
        port = parts.port
    except ValueError:
        raise error from None
    if parts.scheme not in {"http", "https"} or port is None or parts.path not in {"", "/"}:
        raise error
    host = parts.hostname or "0.0.0.0"  # noqa: S104 - only where the user writes no host
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return Listener(address, parts.scheme == "https", scope)


def _invalid_listener(listener: str, key: str) -> ConfigError:
    return ConfigError(
        "config.bad_value",
        f"`{key}` is {listener[:200]!r}, which is not a listener",
        fix=f"Write http://HOST:PORT, https://HOST:PORT, or {NO_LISTENER}.",
        config_path=key,
    )


log = logging.getLogger(__name__)


RELOAD_INTERVAL_S: Final = 30.0
"""Seconds between checks for changed files. Certificates are replaced days before they expire."""


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """The PEM files of a certificate.

    With `clients`, a client needs a certificate that one of these authorities signed.
    """

    certificate: Path
    key: Path
    clients: Path | None = None

    def create_context(self) -> ReloadingContext:
        """Return the TLS context of a server, which can be replaced while the server runs.

        Raises:
            ConfigError: `tls.file`.
        """
        return ReloadingContext(self.load())

    def load(self) -> ssl.SSLContext:
        """Return a context with the certificate of the files; TLS 1.2 or newer.

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
                f"cannot load the certificate {self.certificate} with the key {self.key}: {error}",
                fix="Name the PEM files of a certificate and its key, readable by the process.",
                config_path="listener.tls.certificate",
            ) from error
        return context

    async def reload_on_change(self, reloading: ReloadingContext) -> None:
        """Load the files again whenever they change, until cancelled."""
        seen = self._modified_times()
        while True:
            await asyncio.sleep(RELOAD_INTERVAL_S)
            now = self._modified_times()
            if now == seen:
                continue
            try:
                reloading.replace(self.load())
            except ConfigError as error:
                log.warning("the new certificate is not used: %s", error)
            else:
                seen = now
                log.info("the certificate was loaded again")

    def _modified_times(self) -> tuple[int, ...]:
        files = (self.certificate, self.key, self.clients)
        return tuple(_modified_ns(file) for file in files if file)


class ReloadingContext:
    """The TLS context of a server, which can be replaced while the server runs.

    Each handshake uses the newest context as a whole. Loading into an existing context would keep
    withdrawn authorities, and after an error a part of the new files.
    """

    def __init__(self, first: ssl.SSLContext) -> None:
        """`first` is the context until it is replaced."""
        self.context, self._now = first, first
        first.sni_callback = self._handshake

    def replace(self, context: ssl.SSLContext) -> None:
        """Use another context for new handshakes."""
        self._now = context

    def _handshake(self, connection: ssl.SSLObject, _: str | None, __: ssl.SSLContext) -> None:
        connection.context = self._now


def _modified_ns(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except OSError:  # it is being replaced
        return 0


def certificate_from_settings(values: Mapping[str, Any]) -> CertificateFiles | None:
    """Return the certificate files that the keys of a gateway name; None for no certificate.

    Raises:
        ConfigError: `config.missing`: a certificate without its key, or a key without certificate.
    """
    certificate, key = values["listener.tls.certificate"], values["listener.tls.key"]
    if bool(certificate) != bool(key):
        missing = "listener.tls.key" if certificate else "listener.tls.certificate"
        raise ConfigError(
            "config.missing",
            f"`{missing}` is not set: a certificate needs its key",
            fix="Set both `listener.tls.certificate` and `listener.tls.key`, or neither.",
            config_path=missing,
        )
    if not certificate:
        return None
    clients = values["listener.tls.clients"]
    return CertificateFiles(Path(certificate), Path(key), Path(clients) if clients else None)
