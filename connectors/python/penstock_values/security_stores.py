"""Certificates and keys of a connection, as PEM: from the files that Kafka's clients in Java read.

    TrustStore("/etc/kafka/trust.jks", password="changeit").read()

A file may be PEM, PKCS12, JKS or JCEKS; what it is is seen in its bytes.
"""

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

from penstock_values.java_keystores import (
    ConversionFailedError,
    KeytoolMissingError,
    WrongPasswordError,
    convert_keystore,
    java_form,
)

STORE_TYPES: Final = ("JKS", "JCEKS", "PKCS12", "PEM")
"""Values of `ssl.truststore.type` and `ssl.keystore.type`."""

_PEM: Final = b"-----BEGIN"
_MAX_BYTES: Final = 16 << 20
"""More than any store has: what is larger is another file."""


class SecurityStoreError(ValueError):
    """A store, or a part of it, cannot be used.

    Attributes:
        key: The key that names it.
        why: What is wrong with it.
        fix: How to fix it.
    """

    def __init__(self, key: str, why: str, fix: str) -> None:
        super().__init__(f"`{key}`: {why}. {fix}")
        self.key, self.why, self.fix = key, why, fix


@dataclass(frozen=True, slots=True)
class TrustStore:
    """The certificates that sign those of the other side: a file, or its text.

    Attributes:
        prefix: What the names of its keys begin with: `ssl.`, or `schema.registry.ssl.`.
    """

    location: str
    type: str = ""
    password: str = field(default="", repr=False)
    certificates: str = ""
    prefix: str = "ssl."

    def read(self) -> str:
        """Return the certificates; empty for those of the system.

        Raises:
            SecurityStoreError: the file cannot be used.
        """
        if not self.location:
            return _unescaped(self.certificates)
        path = f"{self.prefix}truststore.location"
        content = _read(self.location, path)
        if _is_pem(content, self.type, path):
            return content.decode("ascii", errors="replace")
        store = _load(content, self.password, "", self.location, path)
        found = [one.certificate for one in store.additional_certs]
        if store.cert is not None:
            found.append(store.cert.certificate)
        if not found:
            raise SecurityStoreError(
                path, f"{self.location} has no certificates", "Choose another file."
            )
        return "".join(one.public_bytes(Encoding.PEM).decode() for one in found)


@dataclass(frozen=True, slots=True)
class KeyStore:
    """The certificate of a client and its key: a file, or their texts.

    Attributes:
        prefix: As of `TrustStore`.
    """

    location: str
    type: str = ""
    password: str = field(default="", repr=False)
    certificate_chain: str = ""
    key: str = field(default="", repr=False)
    key_password: str = field(default="", repr=False)
    prefix: str = "ssl."

    def read(self) -> tuple[str, str] | None:
        """Return the chain and the key, without a password; None when there are none.

        Raises:
            SecurityStoreError: the file cannot be used.
        """
        if not self.location:
            if bool(self.certificate_chain) != bool(self.key):
                name = "key" if self.certificate_chain else "certificate.chain"
                path = f"{self.prefix}keystore.{name}"
                raise SecurityStoreError(
                    path, "it is not set, and the other half is", f"Set `{path}`, too."
                )
            if not self.key:
                return None
            return _unescaped(self.certificate_chain), self._open(_unescaped(self.key), "")
        path = f"{self.prefix}keystore.location"
        content = _read(self.location, path)
        if _is_pem(content, self.type, path):
            text = content.decode("ascii", errors="replace")
            return text, self._open(text, self.location)
        store = _load(content, self.password, self.key_password, self.location, path)
        if store.cert is None or store.key is None:
            fix = "Choose the file that has the client's certificate and its key."
            raise SecurityStoreError(path, f"{self.location} has no certificate with a key", fix)
        chain = [store.cert.certificate, *(one.certificate for one in store.additional_certs)]
        key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return "".join(one.public_bytes(Encoding.PEM).decode() for one in chain), key.decode()

    def _open(self, text: str, location: str) -> str:
        """Return the key of a PEM text, without its password."""
        where = location or f"`{self.prefix}keystore.key`"
        start = text.find("-----BEGIN", max(text.find("PRIVATE KEY-----") - 40, 0))
        password = self.key_password.encode() or None
        try:
            key = load_pem_private_key(text[max(start, 0) :].encode(), password)
        except (ValueError, TypeError) as error:
            name = f"{self.prefix}key.password"
            fix = f"Check `{name}`, and that the key is PKCS8 (openssl pkcs8 -topk8)."
            path = f"{self.prefix}keystore.{'location' if location else 'key'}"
            raise SecurityStoreError(
                path, f"the key of {where} cannot be read ({error})", fix
            ) from None
        return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def _read(location: str, path: str) -> bytes:
    try:
        with Path(location).open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        fix = "Check the path, and that the process of the connector may read it."
        raise SecurityStoreError(
            path, f"{location} cannot be read: {error.strerror}", fix
        ) from None
    if len(content) > _MAX_BYTES:
        raise SecurityStoreError(path, f"{location} is larger than 16 MiB", "Choose another file.")
    return content


def _is_pem(content: bytes, kind: str, path: str) -> bool:
    """Return whether a store is PEM, and not PKCS12. Java's type JKS has both binary forms."""
    is_pem = content.lstrip().startswith(_PEM)
    if kind and (kind == "PEM") is not is_pem:
        name = _near(path, "type")
        found = "PEM" if is_pem else "not PEM"
        raise SecurityStoreError(
            path, f"the file is {found}, and `{name}` is {kind}", f"Remove `{name}`."
        )
    return is_pem


def _load(
    content: bytes, password: str, key_password: str, location: str, path: str
) -> PKCS12KeyAndCertificates:
    if form := java_form(content):
        content, password = _convert(content, form, password, key_password, location, path)
    try:
        return load_pkcs12(content, password.encode())
    except ValueError as error:
        fix = f"Check `{_near(path, 'password')}`, and that the file is PEM, PKCS12 or JKS."
        raise SecurityStoreError(path, f"{location} cannot be opened ({error})", fix) from None


def _convert(
    content: bytes, form: str, password: str, key_password: str, location: str, path: str
) -> tuple[bytes, str]:
    try:
        return convert_keystore(content, password, key_password)
    except KeytoolMissingError:
        target = f"{location.removesuffix(f'.{form.lower()}')}.p12"
        raise SecurityStoreError(
            path,
            f"{location} is a {form} store, which only Java reads, and there is no `keytool` in "
            "JAVA_HOME/bin or PATH",
            f"Install Java, or convert the store elsewhere: keytool -importkeystore -srckeystore "
            f"{location} -destkeystore {target} -deststoretype PKCS12; then set `{path}={target}`.",
        ) from None
    except WrongPasswordError as error:
        name = _near(path, "password")
        if error.is_of_key:
            name = name.replace("keystore.password", "key.password")
        why = f"{location} cannot be opened: {error}"
        raise SecurityStoreError(path, why, f"Correct `{name}`.") from None
    except ConversionFailedError as error:
        fix = f"Check that the file is a whole {form} store."
        raise SecurityStoreError(path, f"{location} cannot be read: {error}", fix) from None


def _near(path: str, name: str) -> str:
    """Return another key of the store that `path` names."""
    return path.replace("location", name)


def _unescaped(text: str) -> str:
    """Return a PEM text of one line, as a file of properties may have it, with its lines."""
    return text.replace("\\n", "\n")
