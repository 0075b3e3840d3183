"""Objects of a store that speaks S3, as files to read. They never grow: they are replaced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

from penstock_builtin.places.port import Found, Names
from penstock_builtin.places.s3_keys import S3Access, S3Url
from penstock_connector import ConfigError

if TYPE_CHECKING:
    from penstock_builtin.places.s3_store import S3Store

_AHEAD: Final = 4 << 20
"""Bytes that are fetched at once at least. Fewer ask more often than an answer is worth; more is
memory for every object that is being read."""

_ASK_MOST: Final = 16 << 20
"""Bytes that are asked for at once. More takes longer than a request may on a slow network."""


def open_store(url: S3Url, access: S3Access) -> S3Store:
    """Return the bucket of a URL.

    Raises:
        ConfigError: `s3.not_installed`; the access is not one.
    """
    try:
        # imported on use: an extra, which takes a moment and 30 MB to load
        from penstock_builtin.places.s3_store import S3Store  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(
            "s3.not_installed",
            f"objects need a library that is not installed ({error.name})",
            fix="Install it on all workers: pip install 'penstock[s3]'.",
            config_path="path",
        ) from error
    return S3Store(url, access)


class S3Named(Protocol):
    """What a configuration says of a place."""

    @property
    def urls(self) -> tuple[str, ...]:
        """Where."""

    @property
    def names(self) -> Names:
        """Which names are wanted."""

    def access(self, url: str) -> S3Access:
        """How the store of a URL is reached."""


class S3Object:
    """An object as it was when it was opened. Ranges are fetched, and the last one is kept."""

    def __init__(self, store: S3Store, url: S3Url, found: Found) -> None:
        self._store = store
        self._key = found.path.removeprefix(url.at(""))
        self.found = found
        self._kept, self._kept_at = b"", 0

    def read_at(self, at: int, size: int) -> bytes:
        """Return bytes from a place on. Many, as of a column of Parquet, are asked for in parts."""
        size = max(min(size, self.found.size - at), 0)
        if size <= _ASK_MOST:
            return self._piece(at, size)
        ends = range(at, at + size, _ASK_MOST)
        return b"".join(self._piece(n, min(_ASK_MOST, at + size - n)) for n in ends)

    def _piece(self, at: int, size: int) -> bytes:
        begin = at - self._kept_at
        if not 0 <= begin <= begin + size <= len(self._kept):
            length = min(max(size, _AHEAD), self.found.size - at)
            if size:
                self._kept = self._store.get(self._key, self.found.version, at, length)
                self._kept_at, begin = at, 0
        return self._kept[begin : begin + size]

    def close(self) -> None:
        """Forget what was fetched."""
        self._kept = b""


class S3Place:
    """The objects whose keys begin with the prefix of a URL. Names that end with a slash are the
    folders that some tools make, and are left out.
    """

    grows = False
    reopens = False

    def __init__(self, config: S3Named) -> None:
        self._names = config.names
        self._urls = [S3Url.parse(url) for url in config.urls]
        self._stores = {
            url.at(""): open_store(url, config.access(url.at(""))) for url in self._urls
        }
        self._seen: dict[str, Found] = {}

    def check(self) -> None:
        """List a little of every URL: so wrong keys and names come early."""
        try:
            for url in self._urls:
                next(self._stores[url.at("")].listed(url.prefix), None)
        finally:
            self.close()

    def find(self) -> Sequence[Found]:
        """Return the objects that are meant now."""
        seen: dict[str, Found] = {}
        for url in self._urls:
            for stored in self._stores[url.at("")].listed(url.prefix):
                path = url.at(stored.key)
                if not path.endswith("/") and self._names.has(path):
                    seen[path] = Found(path, stored.size, stored.tag)
        self._seen = seen
        return list(seen.values())

    def look(self, path: str) -> Found | None:
        """Return an object as it was listed last."""
        return self._seen.get(path)

    def open(self, path: str) -> S3Object:
        """Open an object as it was listed last."""
        found = self._seen.get(path)
        if found is None:
            raise FileNotFoundError(path)
        url = next(url for url in self._urls if path.startswith(url.at(url.prefix)))
        return S3Object(self._stores[url.at("")], url, found)

    def close(self) -> None:
        """Close the connections."""
        for store in self._stores.values():
            store.close()
