"""Keys of NATS's users, and accounts that are signed by an operator, for tests.

accounts = Accounts()
NatsServer(folder, users=accounts.configuration())
file.write_text(accounts.credentials())
"""

from __future__ import annotations

import base64
import json
import secrets
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from penstock_messaging.nats.credentials import checksum, encode_public

_SEED, _OPERATOR, _ACCOUNT, _USER = 18 << 3, 14 << 3, 0, 20 << 3
_ISSUED_AT = 1_700_000_000
_UNLIMITED = (
    "subs", "data", "payload", "imports", "exports", "conn", "leaf", "mem_storage",
    "disk_storage", "streams", "consumer",
)  # fmt: skip


@dataclass(frozen=True)
class Key:
    """A key, and the texts of its public and its secret half."""

    public: str
    seed: str
    private: Ed25519PrivateKey

    def sign(self, subject: str, name: str, claims: dict[str, Any]) -> str:
        """Return a signed token."""
        body = {
            "jti": secrets.token_hex(8), "iat": _ISSUED_AT, "iss": self.public, "name": name,
            "sub": subject, "nats": {**claims, "version": 2},
        }  # fmt: skip
        head = {"typ": "JWT", "alg": "ed25519-nkey"}
        text = ".".join(_encode(json.dumps(one).encode()) for one in (head, body))
        return f"{text}.{_encode(self.private.sign(text.encode()))}"


def new_user() -> Key:
    """Return the key of a user."""
    return _new_key(_USER)


def _new_key(kind: int) -> Key:
    raw = secrets.token_bytes(32)
    private = Ed25519PrivateKey.from_private_bytes(raw)
    seed = bytes([_SEED | kind >> 5, (kind & 31) << 3]) + raw
    text = base64.b32encode(seed + checksum(seed)).rstrip(b"=").decode()
    return Key(encode_public(private, kind), text, private)


class Accounts:
    """An operator, an account of the system, and one with a user."""

    def __init__(self) -> None:
        self._operator, self._user = _new_key(_OPERATOR), new_user()
        self._accounts = {"system": _new_key(_ACCOUNT), "rows": _new_key(_ACCOUNT)}

    def configuration(self) -> str:
        """Return lines of a server's configuration."""
        operator = self._operator.sign(self._operator.public, "operator", {"type": "operator"})
        limits = {**dict.fromkeys(_UNLIMITED, -1), "wildcards": True}
        limits_of = {"rows": limits, "system": {k: v for k, v in limits.items() if "st" not in k}}
        tokens = [
            f"{key.public}: "
            + self._operator.sign(key.public, name, {"type": "account", "limits": limits_of[name]})
            for name, key in self._accounts.items()
        ]
        preload = "\n".join(tokens)
        return (
            f"operator: {operator}\nsystem_account: {self._accounts['system'].public}\n"
            f"resolver: MEMORY\nresolver_preload: {{\n{preload}\n}}"
        )

    def credentials(self) -> str:
        """Return a file of credentials, as `nsc generate creds` writes it."""
        claims = {"type": "user", "pub": {}, "sub": {}, **dict.fromkeys(_UNLIMITED[:3], -1)}
        token = self._accounts["rows"].sign(self._user.public, "user", claims)
        return (
            f"-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{self._user.seed}\n------END USER NKEY SEED------\n"
        )


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
