"""TLS between the driver and lanes on other machines, with a certificate for each engine.

Tickets have credentials of plugins, and Spark's settings for encryption do not reach connections
that are not Spark's. The certificate needs no authority: a lane gets it from the driver, with the
job, and trusts no other.
"""

from __future__ import annotations

import datetime as dt
import ssl
import tempfile
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_VALID: Final = (dt.datetime(2000, 1, 1, tzinfo=dt.UTC), dt.datetime(9999, 1, 1, tzinfo=dt.UTC))
"""Clocks of executors may be wrong. The key is in the memory of one process, and ends with it."""


def make_server_context() -> tuple[ssl.SSLContext, str]:
    """Return the driver's context with a new certificate, and the certificate in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "penstock lanes")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_VALID[0])
        .not_valid_after(_VALID[1])
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    with tempfile.TemporaryDirectory(prefix="penstock-lanes-") as folder:
        file = Path(folder, "pem")  # Python's ssl reads keys from files only
        file.touch(mode=0o600)
        file.write_bytes(pem + private)
        context.load_cert_chain(file)
    return context, pem.decode()
