"""Password hashes: scrypt, each with a random salt, written as one string."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from typing import Final

from penstock.model.errors import ConfigError

_COST: Final = (2**14, 8, 1)
"""n, r, p of scrypt: 16 MiB and some 50 ms for each hash."""

_NAME: Final = "scrypt"


def hash_password(password: str) -> str:
    """Return `scrypt$<n>$<r>$<p>$<salt>$<hash>`.

    Raises:
        ConfigError: `auth.password`: it has a NUL character.
    """
    if "\0" in password:
        raise ConfigError(
            "auth.password",
            "the password has a NUL character",
            fix="Choose a password without it.",
        )
    salt = secrets.token_bytes(16)
    n, r, p = _COST
    return "$".join(
        (_NAME, str(n), str(r), str(p), _text(salt), _text(_key(password, salt, *_COST)))
    )


def verify_password(password: str, stored: str) -> bool:
    """Return whether a password has this hash. A string that is not a hash matches no password."""
    try:
        name, n, r, p, salt, key = stored.split("$")
        if name != _NAME or "\0" in password:  # scrypt pads with NUL: two passwords would match
            return False
        found = _key(password, base64.b64decode(salt), int(n), int(r), int(p))
        return hmac.compare_digest(found, base64.b64decode(key))
    except ValueError:
        return False


def _key(password: str, salt: bytes, n: int, r: int, p: int) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, n=n, r=r, p=p, maxmem=128 * n * r * 2)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
