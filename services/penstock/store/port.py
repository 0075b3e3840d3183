"""The key-value port that every service keeps its state behind.

Keys are text, ordered by their UTF-8 bytes. One counter, the revision, grows with every write of
the whole store; an entry carries the revision of the write that last put it. So a revision names a
moment, is never used twice, and can serve as an epoch.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from penstock.model.errors import RetriableError

ANY: Final = None
"""Revision of a `Check` that takes any state of the key."""

FORMAT: Final = 1
"""What is kept in a store, and how. Each store bears the number that it was made with; a version
that knows only a smaller one refuses it (`store.newer`), because it would misread, or overwrite,
what it does not know. Raised when an older version could do that; a field more is no reason."""

Put: TypeAlias = tuple[str, bytes | None]
"""A key and its new value; None removes the key."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A key as it was read."""

    key: str
    value: bytes
    revision: int


@dataclass(frozen=True, slots=True)
class Page:
    """Entries in order of key, all as they were at `revision`, which is never 0: a watch after it
    misses nothing. `more`: keys follow the last one.
    """

    entries: tuple[Entry, ...]
    revision: int
    more: bool = False


@dataclass(frozen=True, slots=True)
class Check:
    """What a write depends on: `revision` 0 = the key must not exist, n = exactly that one."""

    key: str
    revision: int | None


@dataclass(frozen=True, slots=True)
class Change:
    """A hint that keys were written up to `revision`. No keys: list again, too much was missed."""

    revision: int
    keys: tuple[str, ...] = ()


class Conflict(RetriableError):  # noqa: N818 - a word of the port, as Entry and Check are
    """A check failed: nothing was written. `revision` is the key's current one, 0 for none."""

    def __init__(self, key: str, revision: int) -> None:
        """Name the key and where it stands."""
        self.key, self.revision = key, revision
        super().__init__(
            "store.conflict",
            f"`{key}` is at revision {revision}, another write came first",
            fix="Read again and repeat the change.",
        )


class Store(Protocol):
    """A driver. Every method may raise PenstockError with a `store.*` code."""

    async def get(self, *keys: str) -> Mapping[str, Entry]:
        """Read keys at one revision; those that do not exist are absent."""

    async def range(self, prefix: str, after: str = "", limit: int = 1000) -> Page:
        """Read the keys that start with `prefix` and come after `after`, at one revision."""

    async def write(self, checks: Sequence[Check], puts: Sequence[Put]) -> int:
        """Put all or nothing, durably, if every check holds; returns the revision of the write.

        Durable before it returns. A caller that is cancelled while it waits does not know the
        outcome. Raises `Conflict` when a check fails.
        """

    def watch(self, prefix: str, after_revision: int = 0) -> AsyncIterator[Change]:
        """Tell about writes to keys under `prefix` after a revision; 0 for from now, the call.

        A hint, never a source of state (invariant 7): changes may be merged, and a watcher that
        is too far behind gets a `Change` with no keys. Ends when the store is closed.
        """

    def statistics(self) -> Mapping[str, int]:
        """Return how many `writes` were made durable, and in how many `groups`: transactions."""

    async def close(self) -> None:
        """Let go of the state. Writes that wait are finished first. Idempotent."""
