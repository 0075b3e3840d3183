"""Certificates and keys of a connection, as PEM: from files that Kafka's clients in Java read."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import (
    PKCS12KeyAndCertificates,
    load_pkcs12,
)

from penstock_connector import ConfigError

_JKS: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_PEM: Final = b"-----BEGIN"
_MAX_BYTES: Final = 16 << 20
"""More than any store has: what is larger is another file."""


@dataclass(frozen=True, slots=True)
class TrustStore:
    """The certificates that sign the brokers': a file, or its text."""

    location: str
    type: str
    password: str = field(repr=False)
    certificates: str

    def read(self) -> str:
        """Return the certificates; empty for those of the system.

        Raises:
            ConfigError: `kafka.store`.
        """
        if not self.location:
            return _unescaped(self.certificates)
        path = "ssl.truststore.location"
        content = _read(self.location, path)
        if _is_pem(content, self.type, path):
            return content.decode("ascii", errors="replace")
        store = _load(content, self.password, self.location, path)
        found = [one.certificate for one in store.additional_certs]
        if store.cert is not None:
            found.append(store.cert.certificate)
        if not found:
            raise _error(path, f"{self.location} has no certificates", "Choose another file.")
        return "".join(one.public_bytes(Encoding.PEM).decode() for one in found)


@dataclass(frozen=True, slots=True)
class KeyStore:
    """The certificate of a client and its key: a file, or their texts."""

    location: str
    type: str
    password: str = field(repr=False)
    certificate_chain: str
    key: str = field(repr=False)
    key_password: str = field(repr=False)

    def read(self) -> tuple[str, str] | None:
        """Return the chain and the key, without a password; None when there are none.

        Raises:
            ConfigError: `kafka.store`.
        """
        if not self.location:
            if bool(self.certificate_chain) != bool(self.key):
                name = "key" if self.certificate_chain else "certificate.chain"
                path = f"ssl.keystore.{name}"
                raise _error(path, "it is not set, and the other half is", f"Set `{path}`, too.")
            if not self.key:
                return None
            return _unescaped(self.certificate_chain), self._open(_unescaped(self.key), "")
        path = "ssl.keystore.location"
        content = _read(self.location, path)
        if _is_pem(content, self.type, path):
            text = content.decode("ascii", errors="replace")
            return text, self._open(text, self.location)
        store = _load(content, self.password, self.location, path)
        if store.cert is None or store.key is None:
            fix = "Choose the file that has the client's certificate and its key."
            raise _error(path, f"{self.location} has no certificate with a key", fix)
        chain = [store.cert.certificate, *(one.certificate for one in store.additional_certs)]
        key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return "".join(one.public_bytes(Encoding.PEM).decode() for one in chain), key.decode()

    def _open(self, text: str, location: str) -> str:
        """Return the key of a PEM text, without its password."""
        where = location or "`ssl.keystore.key`"
        start = text.find("-----BEGIN", max(text.find("PRIVATE KEY-----") - 40, 0))
        password = self.key_password.encode() or None
        try:
            key = load_pem_private_key(text[max(start, 0) :].encode(), password)
        except (ValueError, TypeError) as error:
            fix = "Check `ssl.key.password`, and that the key is PKCS8 (openssl pkcs8 -topk8)."
            path = "ssl.keystore.location" if location else "ssl.keystore.key"
            raise _error(path, f"the key of {where} cannot be read ({error})", fix) from None
        return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def _read(location: str, path: str) -> bytes:
    try:
        with Path(location).open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        fix = "Check the path, and that the process of the connector may read it."
        raise _error(path, f"{location} cannot be read: {error.strerror}", fix) from None
    if len(content) > _MAX_BYTES:
        raise _error(path, f"{location} is larger than 16 MiB", "Choose another file.")
    if content.startswith(_JKS):
        target = f"{location.removesuffix('.jks')}.p12"
        raise _error(
            path,
            f"{location} is a JKS store, a form of Java's own",
            f"Convert it: keytool -importkeystore -srckeystore {location} -destkeystore {target} "
            f"-deststoretype PKCS12; then set `{path}={target}`.",
        )
    return content


def _is_pem(content: bytes, kind: str, path: str) -> bool:
    """Return whether a store is PEM, and not PKCS12. Java's type JKS has both binary forms."""
    is_pem = content.lstrip().startswith(_PEM)
    if kind and (kind == "PEM") is not is_pem:
        name = path.replace("location", "type")
        found = "PEM" if is_pem else "not PEM"
        raise _error(path, f"the file is {found}, and `{name}` is {kind}", f"Remove `{name}`.")
    return is_pem


def _load(content: bytes, password: str, location: str, path: str) -> PKCS12KeyAndCertificates:
    try:
        return load_pkcs12(content, password.encode())
    except ValueError as error:
        name = path.replace("location", "password")
        fix = f"Check `{name}`, and that the file is PEM or PKCS12."
        raise _error(path, f"{location} cannot be opened ({error})", fix) from None


def _unescaped(text: str) -> str:
    """Return a PEM text of one line, as a file of properties may have it, with its lines."""
    return text.replace("\\n", "\n")


def _error(path: str, why: str, fix: str) -> ConfigError:
    return ConfigError("kafka.store", f"`{path}`: {why}", fix=fix, config_path=path)
