"""How TLS is spoken with a schema registry: by the keys `schema.registry.ssl.…`."""

from __future__ import annotations

import secrets
import ssl
import tempfile
from collections.abc import Callable
from typing import Final

from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from penstock_converters import InvalidConverterError
from penstock_converters.config_values import Config, ConverterKey, invalid_value
from penstock_values.security_stores import (
    STORE_TYPES,
    KeyStore,
    SecurityStoreError,
    TrustStore,
)

_SSL: Final = "schema.registry.ssl."
_HOST_CHECK: Final = f"{_SSL}endpoint.identification.algorithm"

TLS_KEYS: Final = (
    ConverterKey(f"{_SSL}truststore.location", doc="File with the certificates that sign the "
              "registry's (PEM, PKCS12 or JKS). None: those of the system."),
    ConverterKey(f"{_SSL}truststore.type", choices=STORE_TYPES,
              doc="Its form; none: it is found out."),
    ConverterKey(f"{_SSL}truststore.password", "password", doc="Its password."),
    ConverterKey(f"{_SSL}truststore.certificates", doc="The certificates themselves, in PEM."),
    ConverterKey(f"{_SSL}keystore.location", doc="File with our certificate and key (PEM, PKCS12 "
              "or JKS)."),
    ConverterKey(f"{_SSL}keystore.type", choices=STORE_TYPES,
              doc="Its form; none: it is found out."),
    ConverterKey(f"{_SSL}keystore.password", "password", doc="Its password."),
    ConverterKey(f"{_SSL}keystore.certificate.chain", doc="The certificate itself (PEM), instead "
              "of a file."),
    ConverterKey(f"{_SSL}keystore.key", "password", doc="The key of that certificate (PEM)."),
    ConverterKey(f"{_SSL}key.password", "password", doc="Password of the key."),
    ConverterKey(_HOST_CHECK, default="https", doc="`https`: the certificate must name the "
              "registry's host; empty: it need not."),
)  # fmt: skip

STORE_FILES: Final = (f"{_SSL}truststore.location", f"{_SSL}keystore.location")
"""Keys that name files."""


def read_tls(config: Config) -> Callable[[], ssl.SSLContext | None]:
    """Return what makes the TLS of a registry: its files are read at first use."""
    password = config.get(f"{_SSL}keystore.password", "")
    trust = TrustStore(
        config.get(f"{_SSL}truststore.location", ""),
        _store_type(config, f"{_SSL}truststore.type"),
        config.get(f"{_SSL}truststore.password", ""),
        config.get(f"{_SSL}truststore.certificates", ""),
        _SSL,
    )
    own = KeyStore(
        config.get(f"{_SSL}keystore.location", ""),
        _store_type(config, f"{_SSL}keystore.type"),
        password,
        config.get(f"{_SSL}keystore.certificate.chain", ""),
        config.get(f"{_SSL}keystore.key", ""),
        config.get(f"{_SSL}key.password", "") or password,
        _SSL,
    )
    algorithm = config.get(_HOST_CHECK, "https").strip().lower()
    if algorithm not in ("https", ""):
        raise invalid_value(_HOST_CHECK, algorithm, "https, or an empty text")
    if not any(name.startswith(_SSL) for name in config):
        return lambda: None
    return lambda: _make_tls(trust, own, checks_host=bool(algorithm))


def _store_type(config: Config, key: str) -> str:
    kind = config.get(key, "").strip().upper()
    if kind not in ("", *STORE_TYPES):
        raise invalid_value(key, kind, f"one of {', '.join(STORE_TYPES)}, or remove the key")
    return kind


def _make_tls(trust: TrustStore, own: KeyStore, *, checks_host: bool) -> ssl.SSLContext:
    key = f"{_SSL}truststore.{'location' if trust.location else 'certificates'}"
    try:
        context = ssl.create_default_context(cadata=trust.read() or None)
        context.check_hostname = checks_host
        if pair := own.read():
            key = f"{_SSL}keystore.location"
            _load_own(context, *pair)
    except SecurityStoreError as error:
        raise InvalidConverterError(
            "config.invalid_value",
            f"`{error.key}`: {error.why}",
            fix=error.fix,
            config_path=error.key,
        ) from None
    except (ValueError, OSError) as error:
        raise InvalidConverterError(
            "config.invalid_value",
            f"`{key}`: its certificates cannot be used: {error}",
            fix="Check them: PEM begins with -----BEGIN CERTIFICATE-----.",
            config_path=key,
        ) from None
    return context


def _load_own(context: ssl.SSLContext, chain: str, key: str) -> None:
    """Load a certificate and its key. The library wants a file: it is this user's alone, and the
    key in it is encrypted.
    """
    secret = secrets.token_bytes(24)
    private = load_pem_private_key(key.encode(), None)
    locked = private.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(secret)
    )
    with tempfile.NamedTemporaryFile() as made:
        made.write(locked + chain.encode())
        made.flush()
        context.load_cert_chain(made.name, password=secret)
