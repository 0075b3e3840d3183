"""Keys of users (NKeys), and files of credentials: a token of a user and its key.

A server sends a nonce, and the client signs it with its key (Ed25519), which it keeps to itself.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from penstock_connector import ConfigError

_SEED: Final = 18 << 3
_USER: Final = 20 << 3
"""First bytes of keys: by them texts of seeds begin with `S`, those of users with `U`."""

_SEED_BYTES: Final = 32
_MAX_FILE_BYTES: Final = 64 << 10
_TOKEN: Final = re.compile(r"-+BEGIN NATS USER JWT-+\s+(\S+)\s+-+END NATS USER JWT-+")
_KEY: Final = re.compile(r"-+BEGIN USER NKEY SEED-+\s+(\S+)\s+-+END USER NKEY SEED-+")


@dataclass(frozen=True, slots=True)
class UserKey:
    """The key of a user.

    Attributes:
        public: By what servers know the user, when there is no token.
        token: The signed token of the user (JWT); empty: none.
    """

    public: str
    token: str = field(repr=False)
    _private: Ed25519PrivateKey = field(repr=False)

    def sign(self, nonce: str) -> str:
        """Return the signature of what a server sent."""
        return base64.urlsafe_b64encode(self._private.sign(nonce.encode())).rstrip(b"=").decode()


def read_key(path: str, config_path: str) -> UserKey:
    """Return the key in a file that `nk -gen user` wrote: a line that begins with `SU`.

    Raises:
        ConfigError: `nats.credentials`.
    """
    return parse_seed(_read(path, config_path).strip(), "", path, config_path)


def read_credentials(path: str, config_path: str) -> UserKey:
    """Return the token and the key in a file that `nsc generate creds` wrote.

    Raises:
        ConfigError: `nats.credentials`.
    """
    text = _read(path, config_path)
    token, seed = _TOKEN.search(text), _KEY.search(text)
    if token is None or seed is None:
        why = "it has no NATS USER JWT, or no USER NKEY SEED"
        raise _refusal(path, why, "Name the file that `nsc generate creds` writes.", config_path)
    return parse_seed(seed[1], token[1], path, config_path)


def parse_seed(text: str, token: str, path: str, config_path: str) -> UserKey:
    """Return the key of a seed.

    Raises:
        ConfigError: `nats.credentials`.
    """
    try:
        raw = base64.b32decode(text + "=" * (-len(text) % 8))
    except (binascii.Error, ValueError):
        raw = b""
    checked = len(raw) == _SEED_BYTES + 4 and checksum(raw[:-2]) == raw[-2:]
    kind = (raw[0] & 0b111) << 5 | raw[1] >> 3 if checked else 0
    if not checked or raw[0] & 0b11111000 != _SEED or kind != _USER:
        why = "it is not the seed of a user, or a character of it is wrong"
        raise _refusal(path, why, "Name a file with the seed of a user: `SU…`.", config_path)
    private = Ed25519PrivateKey.from_private_bytes(raw[2:-2])
    return UserKey(encode_public(private, _USER), token, private)


def encode_public(private: Ed25519PrivateKey, kind: int) -> str:
    """Return the text of a public key of a kind."""
    raw = bytes([kind]) + private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return base64.b32encode(raw + checksum(raw)).rstrip(b"=").decode()


def checksum(data: bytes) -> bytes:
    """Return the last bytes of a key: CRC-16 of those before (XMODEM)."""
    return binascii.crc_hqx(data, 0).to_bytes(2, "little")


def _read(path: str, config_path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            return file.read(_MAX_FILE_BYTES).decode("ascii", errors="replace")
    except OSError as error:
        why = error.strerror or str(error)
        fix = "Name a file that all workers have, and may read."
        raise _refusal(path, why, fix, config_path) from error


def _refusal(path: str, why: str, fix: str, config_path: str) -> ConfigError:
    return ConfigError(
        "nats.credentials", f"`{config_path}`: {path}: {why}", fix=fix, config_path=config_path
    )
