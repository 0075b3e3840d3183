"""A store with the limits of etcd and its driver: what goes over them fails at once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence

from penstock.store.port import Change, Check, Entry, Page, Put
from penstock.store.sqlite import SqliteStore

MOST_CONDITIONS = 128
MOST_BYTES = 1_500_000


class EtcdLimits:
    """A store in SQLite that refuses what etcd would refuse."""

    def __init__(self, store: SqliteStore) -> None:
        """Write to `store`."""
        self.inner = store

    async def get(self, *keys: str) -> Mapping[str, Entry]:
        """Read keys."""
        return await self.inner.get(*keys)

    async def range(self, prefix: str, after: str = "", limit: int = 1000) -> Page:
        """Read a page."""
        return await self.inner.range(prefix, after, limit)

    async def write(self, checks: Sequence[Check], puts: Sequence[Put]) -> int:
        """Write within the limits."""
        size = sum(len(key.encode()) + len(value or b"") for key, value in puts)
        size += sum(len(check.key.encode()) for check in checks)
        assert len(checks) <= MOST_CONDITIONS, f"{len(checks)} conditions"
        assert size <= MOST_BYTES, f"{size} bytes"
        assert len({key for key, _ in puts}) == len(puts), "etcd puts a key once"
        return await self.inner.write(checks, puts)

    def watch(self, prefix: str, after_revision: int = 0) -> AsyncIterator[Change]:
        """Tell about writes."""
        return self.inner.watch(prefix, after_revision)

    async def close(self) -> None:
        """Close the store."""
        await self.inner.close()

    def statistics(self) -> dict[str, int]:
        """Return what the store counted."""
        return self.inner.statistics()
