"""A store that encrypts its values (AES-256-GCM) before another store keeps them.

Without a seal key, values cannot be read in etcd, in a database, in their backups or replicas; they
may include passwords of configurations. The seal keys are in a file that only the services of the
cluster can read. Each value is bound to its key in the store, so it cannot be moved to another key.
Keys of the store (names, generations, partitions) stay readable, because the store orders them.
"""

from __future__ import annotations

import os
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from penstock.model.errors import ConfigError
from penstock.store.port import Change, Check, Entry, Page, Put, Store

MARK: Final = b"\x00penstock sealed 1\x00"
"""Prefix of an encrypted value. A value without it was stored before there was a key, in plain."""

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12

MAX_KEYS: Final = 16
"""Keys of a file (invariant 12): decryption tries each."""


class Seal:
    """Encrypts values with the first of its keys, and decrypts them with any."""

    def __init__(self, keys: Sequence[bytes] = ()) -> None:
        """`keys` have 32 bytes each; without keys, values stay plain. Put a new key first, and keep
        the old keys until all values have been written again.
        """
        self._ciphers = [_create_cipher(key) for key in keys]

    def encrypt(self, key: str, value: bytes) -> bytes:
        """Encrypt the value of a key."""
        if not self._ciphers:
            return value
        nonce = os.urandom(NONCE_BYTES)
        return MARK + nonce + bytes(self._ciphers[0].encrypt(nonce, value, key.encode()))

    def decrypt(self, key: str, sealed: bytes) -> bytes:
        """Decrypt the value of a key.

        Raises:
            ConfigError: `store.sealed`: none of the seal keys decrypts it.
        """
        if not sealed.startswith(MARK):
            return sealed
        start = len(MARK) + NONCE_BYTES
        nonce, rest = sealed[len(MARK) : start], sealed[start:]
        for cipher in self._ciphers:
            value = _decrypt(cipher, nonce, rest, key.encode())
            if value is not None:
                return value
        raise ConfigError(
            "store.sealed",
            f"no key of `store.seal.keys` decrypts the value of `{key}`",
            fix="Give this service the same keys as the other services. Keep replaced keys in the "
            "file, after the new one.",
            config_path="store.seal.keys",
        )


class SealedStore:
    """A `Store` that encrypts the values of another one. Closes the other store."""

    def __init__(self, inner: Store, seal: Seal, *prefixes: str) -> None:
        """`prefixes`: only values of keys that start with one of them are encrypted; none: all."""
        self._inner, self._seal, self._prefixes = inner, seal, prefixes or ("",)

    async def get(self, *keys: str) -> Mapping[str, Entry]:
        """Read keys at one revision."""
        return {key: self._decrypt(entry) for key, entry in (await self._inner.get(*keys)).items()}

    async def range(self, prefix: str, after: str = "", limit: int = 1000) -> Page:
        """Read keys of a prefix at one revision."""
        page = await self._inner.range(prefix, after, limit)
        return replace(page, entries=tuple(map(self._decrypt, page.entries)))

    async def write(self, checks: Sequence[Check], puts: Sequence[Put]) -> int:
        """Put all or nothing."""
        sealed = [(key, self._encrypt(key, value)) for key, value in puts]
        return await self._inner.write(checks, sealed)

    def watch(self, prefix: str, after_revision: int = 0) -> AsyncIterator[Change]:
        """Iterate over changes."""
        return self._inner.watch(prefix, after_revision)

    def statistics(self) -> Mapping[str, int]:
        """Return the number of durable writes, and of their transactions."""
        return self._inner.statistics()

    async def close(self) -> None:
        """Close the other store. Idempotent."""
        await self._inner.close()

    def _encrypt(self, key: str, value: bytes | None) -> bytes | None:
        if value is None or not key.startswith(self._prefixes):
            return value
        return self._seal.encrypt(key, value)

    def _decrypt(self, entry: Entry) -> Entry:
        return replace(entry, value=self._seal.decrypt(entry.key, entry.value))


def _create_cipher(key: bytes) -> Any:
    # imported here, so that a service without seal keys stays small
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415

    return AESGCM(key)


def _decrypt(cipher: Any, nonce: bytes, sealed: bytes, bound_to: bytes) -> bytes | None:
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - as above

    try:
        return bytes(cipher.decrypt(nonce, sealed, bound_to))
    except InvalidTag:
        return None


def read_seal_file(file: Path) -> Seal:
    """Return the seal with the keys of a file: one per line, 32 bytes in base64.

    Raises:
        ConfigError: `store.seal_keys`: the file cannot be read, every user may read it, or it has
            no valid keys.
    """
    try:
        if file.stat().st_mode & 0o007:
            raise _invalid_keys(
                f"every user of this machine may read {file}",
                f"Restrict it to its owner: chmod 600 {file}.",
            )
        lines = file.read_text(encoding="ascii").split()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise _invalid_keys(
            f"{file} cannot be read: {why}", "Name a file with one key per line."
        ) from None
    try:
        keys = [b64decode(line, validate=True) for line in lines]
    except NotBase64:
        keys = []
    if not 1 <= len(keys) <= MAX_KEYS or any(len(key) != KEY_BYTES for key in keys):
        raise _invalid_keys(
            f"{file} must have 1 to {MAX_KEYS} keys of {KEY_BYTES} bytes in base64",
            "Create a key with: openssl rand -base64 32.",
        )
    return Seal(keys)


def _invalid_keys(what: str, fix: str) -> ConfigError:
    return ConfigError("store.seal_keys", what, fix=fix, config_path="store.seal.keys")
