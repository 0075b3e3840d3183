"""A store whose values nobody can read who has no key: what etcd or a database keeps, backs up and
replicates is sealed (AES-256-GCM), with passwords that a configuration may have.

The key stands beside nothing: it is a file that only services of the cluster can read. Each value
is bound to its key in the store, so that it cannot be put in another one's place. Keys of the store
(names, generations, partitions) stay readable: they are what it is ordered by.
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
"""Begins a sealed value. One without it was stored before there was a key, and is read as it is."""

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12

MOST_KEYS: Final = 16
"""Keys of a file (invariant 12): each is tried."""


class Seal:
    """Seals values with the first of some keys, and opens them with any."""

    def __init__(self, keys: Sequence[bytes] = ()) -> None:
        """`keys` have 32 bytes each; without any, values are left as they are. Put a new one first,
        and leave the old ones until all values have been written again.
        """
        self._ciphers = [_cipher(key) for key in keys]

    def close(self, key: str, value: bytes) -> bytes:
        """Seal the value of a key."""
        if not self._ciphers:
            return value
        nonce = os.urandom(NONCE_BYTES)
        return MARK + nonce + bytes(self._ciphers[0].encrypt(nonce, value, key.encode()))

    def open(self, key: str, sealed: bytes) -> bytes:
        """Return the value of a key.

        Raises:
            ConfigError: `store.sealed`: none of the keys opens it.
        """
        if not sealed.startswith(MARK):
            return sealed
        start = len(MARK) + NONCE_BYTES
        nonce, rest = sealed[len(MARK) : start], sealed[start:]
        for cipher in self._ciphers:
            found = _decrypted(cipher, nonce, rest, key.encode())
            if found is not None:
                return found
        raise ConfigError(
            "store.sealed",
            f"no key of `store.seal.keys` opens what is stored at `{key}`",
            fix="Give this service the keys that the others have; a key that was replaced stays in "
            "the file, behind the new one.",
            config_path="store.seal.keys",
        )


class SealedStore:
    """A `Store` over another one, which it closes."""

    def __init__(self, inner: Store, seal: Seal) -> None:
        self._inner, self._seal = inner, seal

    async def get(self, *keys: str) -> Mapping[str, Entry]:
        """Read keys at one revision."""
        return {key: self._opened(entry) for key, entry in (await self._inner.get(*keys)).items()}

    async def range(self, prefix: str, after: str = "", limit: int = 1000) -> Page:
        """Read keys of a prefix at one revision."""
        page = await self._inner.range(prefix, after, limit)
        return replace(page, entries=tuple(map(self._opened, page.entries)))

    async def write(self, checks: Sequence[Check], puts: Sequence[Put]) -> int:
        """Put all or nothing."""
        sealed = [
            (key, None if value is None else self._seal.close(key, value)) for key, value in puts
        ]
        return await self._inner.write(checks, sealed)

    def watch(self, prefix: str, after_revision: int = 0) -> AsyncIterator[Change]:
        """Tell about writes."""
        return self._inner.watch(prefix, after_revision)

    def statistics(self) -> Mapping[str, int]:
        """Return how many writes were made durable, and in how many transactions."""
        return self._inner.statistics()

    async def close(self) -> None:
        """Let go of the state. Idempotent."""
        await self._inner.close()

    def _opened(self, entry: Entry) -> Entry:
        return replace(entry, value=self._seal.open(entry.key, entry.value))


def _cipher(key: bytes) -> Any:
    # a service without keys stays small
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415

    return AESGCM(key)


def _decrypted(cipher: Any, nonce: bytes, sealed: bytes, bound: bytes) -> bytes | None:
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - as above

    try:
        return bytes(cipher.decrypt(nonce, sealed, bound))
    except InvalidTag:
        return None


def seal_of(file: Path) -> Seal:
    """Return the seal of a file: a key a line, 32 bytes in base64 (`openssl rand -base64 32`).

    Raises:
        ConfigError: `store.seal_keys`: it cannot be read, anybody may read it, or it has no keys.
    """
    try:
        if file.stat().st_mode & 0o007:
            raise _bad(f"{file} can be read by anybody", f"Keep it to its owner: chmod 600 {file}.")
        lines = file.read_text(encoding="ascii").split()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise _bad(f"{file}: {why}", "Name a file with a key a line.") from None
    try:
        keys = [b64decode(line, validate=True) for line in lines]
    except NotBase64:
        keys = []
    if not 1 <= len(keys) <= MOST_KEYS or any(len(key) != KEY_BYTES for key in keys):
        raise _bad(
            f"{file} has no keys of {KEY_BYTES} bytes in base64, at most {MOST_KEYS}",
            "Make one: openssl rand -base64 32.",
        )
    return Seal(keys)


def _bad(what: str, fix: str) -> ConfigError:
    return ConfigError("store.seal_keys", what, fix=fix, config_path="store.seal.keys")
