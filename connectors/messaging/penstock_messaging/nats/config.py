"""The keys of a connection to NATS, and of the stream that is meant."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from penstock_connector import ConfigError, key
from penstock_connector.converter_keys import ConverterKeys
from penstock_messaging.nats.connection import Address, Dialing, Login
from penstock_messaging.nats.credentials import UserKey, read_credentials, read_key
from penstock_messaging.nats.protocol import problem_of_subject

_SCHEMES: Final = {"nats": False, "tls": True}
_PORT: Final = 4222
_API: Final = "$JS.API"
_NOT_IN_NAMES: Final = frozenset(" \t\r\n.*>/\\")


@dataclass(frozen=True)
class NatsConfig(ConverterKeys):
    """Where servers are, who we are there, which stream is meant, and what messages hold."""

    nats_servers: tuple[str, ...] = key(
        doc="Servers as `nats://host:4222`, or `tls://host:4222` with TLS. Of several, which must "
        "be of one cluster, the next one is tried when one does not answer.",
        required=True,
        group="Connection",
    )
    nats_stream: str = key(
        doc="Name of the JetStream stream. It must exist: `nats stream add`.",
        required=True,
        group="Connection",
    )
    nats_username: str = key("", doc="Name of the user; empty: none.", group="Connection")
    nats_password: str = key("", doc="Password of the user.", type="password", group="Connection")
    nats_token: str = key(
        "", doc="Token instead of a user and a password.", type="password", group="Connection"
    )
    nats_nkey_file: str = key(
        "",
        doc="File with the seed of a user's key (NKey) instead of a password: `SU…`.",
        group="Connection",
    )
    nats_credentials_file: str = key(
        "",
        doc="File with the token and the key of a user instead of a password, as "
        "`nsc generate creds` writes it.",
        group="Connection",
    )
    nats_tls_ca_file: str = key(
        "",
        doc="File with the certificates that sign those of servers (PEM). Empty: those of the "
        "system.",
        group="Connection",
    )
    nats_tls_certificate_file: str = key(
        "", doc="File with the certificate of the client (PEM).", group="Connection"
    )
    nats_tls_key_file: str = key(
        "", doc="File with the key of that certificate (PEM).", group="Connection"
    )
    nats_jetstream_domain: str = key(
        "",
        doc="Domain of JetStream, where the stream is behind a leaf node.",
        group="Connection",
        importance="low",
    )
    nats_inbox_prefix: str = key(
        "_INBOX",
        doc="What the subjects of answers begin with: the user must be allowed to subscribe to "
        "`<prefix>.>`.",
        group="Connection",
        importance="low",
    )
    nats_request_timeout: float = key(
        10.0,
        doc="Time in which a server must take a connection, and answer a request.",
        type="duration",
        group="Connection",
    )
    nats_retry_timeout: float = key(
        30.0,
        doc="Time without a connection, or without an answer, after which the task fails and is "
        "run again.",
        type="duration",
        group="Connection",
    )

    key_converter: str = key(
        "string",
        doc="Converter of keys: a name, or Kafka Connect's class "
        "(`penstock_converters/README.md` has all), or a converter of a plugin. The key of a row "
        "that is read is the subject of its message; a sink uses it for `${key}` in "
        "`nats.subject`.",
        group="Messages",
    )

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        addresses = self.addresses
        if not addresses:
            raise invalid("nats.servers", "it names no server", "Write nats://host:4222.")
        if len({one.is_tls for one in addresses}) > 1:
            why = "some servers have TLS and others have not"
            raise invalid("nats.servers", why, "Write all with tls://, or all with nats://.")
        for path, problem, fix in (
            ("nats.stream", _problem_of_name(self.nats_stream), "Name a stream: `nats stream ls`."),
            (
                "nats.jetstream.domain",
                self.nats_jetstream_domain and _problem_of_name(self.nats_jetstream_domain),
                "Name a domain, or remove the key.",
            ),
            (
                "nats.inbox.prefix",
                problem_of_subject(self.nats_inbox_prefix),
                "Use a subject as `_INBOX`.",
            ),
            (
                "nats.request.timeout",
                "" if self.nats_request_timeout > 0 else "it is out of range",
                "Use a time above 0.",
            ),
            (
                "nats.retry.timeout",
                "" if self.nats_retry_timeout > 0 else "it is out of range",
                "Use a time above 0.",
            ),
        ):
            if problem:
                raise invalid(path, problem, fix)
        self._check_login()
        self._check_tls(is_tls=addresses[0].is_tls)
        self.check_converters()

    def _check_login(self) -> None:
        ways = {
            "nats.username": self.nats_username,
            "nats.token": self.nats_token,
            "nats.nkey.file": self.nats_nkey_file,
            "nats.credentials.file": self.nats_credentials_file,
        }
        given = [name for name, value in ways.items() if value]
        if len(given) > 1:
            raise conflict(
                given[1], f"`{given[0]}` and `{given[1]}` are two logins", "Remove one of the two."
            )
        if bool(self.nats_password) != bool(self.nats_username):
            other = "nats.username" if self.nats_password else "nats.password"
            path = "nats.password" if self.nats_password else "nats.username"
            message = f"`{path}` is set, and `{other}` is not"
            raise conflict(path, message, f"Set `{other}`, or remove `{path}`.")

    def _check_tls(self, *, is_tls: bool) -> None:
        files = self._tls_files()
        for path, value in files.items():
            if value and not is_tls:
                raise conflict(
                    path,
                    f"`{path}` has no effect with `{self.nats_servers[0]}`",
                    "Write the servers with tls://, or remove the key.",
                )
        if bool(self.nats_tls_certificate_file) != bool(self.nats_tls_key_file):
            ours, other = "nats.tls.certificate.file", "nats.tls.key.file"
            path, missing = (ours, other) if self.nats_tls_certificate_file else (other, ours)
            message = f"`{path}` is set, and `{missing}` is not"
            raise conflict(path, message, f"Set `{missing}`, or remove `{path}`.")

    def _tls_files(self) -> dict[str, str]:
        return {
            "nats.tls.ca.file": self.nats_tls_ca_file,
            "nats.tls.certificate.file": self.nats_tls_certificate_file,
            "nats.tls.key.file": self.nats_tls_key_file,
        }

    def unused_keys(self) -> Mapping[str, str]:
        """Return the keys that are set and do nothing, and why."""
        return self.unused_converter_keys()

    @property
    def addresses(self) -> list[Address]:
        """Where the servers are."""
        return [parse_address(one) for one in self.nats_servers]

    @property
    def api(self) -> str:
        """What the subjects of JetStream's requests begin with."""
        domain = self.nats_jetstream_domain
        return f"$JS.{domain}.API" if domain else _API

    def require_reach(self) -> None:
        """Refuse a server, or a file, that the node does not let it reach."""
        super().require_reach()
        for address in self.addresses:
            self.reach.require_host(address.host, "nats.servers")
        files = self._tls_files() | {
            "nats.nkey.file": self.nats_nkey_file,
            "nats.credentials.file": self.nats_credentials_file,
        }
        for path, value in files.items():
            self.reach.require_path(value, path)

    def dialing(self) -> Dialing:
        """Return how connections are opened."""
        login = Login(self.nats_username, self.nats_password, self.nats_token, self._user_key)
        return Dialing(
            self.addresses, login, self._tls, self.nats_inbox_prefix, self.nats_request_timeout
        )

    def _user_key(self) -> UserKey | None:
        if self.nats_nkey_file:
            return read_key(self.nats_nkey_file, "nats.nkey.file")
        if self.nats_credentials_file:
            return read_credentials(self.nats_credentials_file, "nats.credentials.file")
        return None

    def _tls(self) -> ssl.SSLContext:
        """Return how TLS is spoken.

        Raises:
            ConfigError: `nats.tls_file`: a file cannot be used.
        """
        path = "nats.tls.ca.file"
        file = self.nats_tls_ca_file
        try:
            context = ssl.create_default_context(cafile=file or None)
            if self.nats_tls_certificate_file:
                path, file = "nats.tls.certificate.file", self.nats_tls_certificate_file
                # a key with a password would ask for it at the terminal
                context.load_cert_chain(file, self.nats_tls_key_file, password="")
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", "") or error
            raise ConfigError(
                "nats.tls_file",
                f"`{path}`: {file}: {why}",
                fix="Name files in PEM, the key without a password.",
                config_path=path,
            ) from error
        return context


def parse_address(url: str) -> Address:
    """Return the address in a URL.

    Raises:
        ConfigError: `config.invalid_value`.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = urlsplit(""), None, None
    is_plain = not (parts.path.strip("/") or parts.query or parts.fragment or parts.username)
    if parts.scheme not in _SCHEMES or not host or not is_plain or port == 0:
        shown = f"{parts.scheme}://***@{host}" if "@" in url else url[:200]
        raise invalid(
            "nats.servers",
            f"{shown!r} is not a server's address",
            "Write nats://host:4222 or tls://host:4222; users go to `nats.username`. WebSockets "
            "are not offered.",
        )
    return Address(host, port or _PORT, _SCHEMES[parts.scheme])


def _problem_of_name(name: str) -> str:
    if not name:
        return "it is empty"
    has_wrong = _NOT_IN_NAMES & set(name) or not name.isprintable()
    return f"{name[:200]!r} has dots, spaces, wildcards or slashes" if has_wrong else ""


def invalid(path: str, why: str, fix: str) -> ConfigError:
    """Return what is said of a value that cannot be."""
    return ConfigError("config.invalid_value", f"`{path}`: {why}", fix=fix, config_path=path)


def conflict(path: str, message: str, fix: str) -> ConfigError:
    """Return what is said of keys that do not go together."""
    return ConfigError("config.conflict", message, fix=fix, config_path=path)
