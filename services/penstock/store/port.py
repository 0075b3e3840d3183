"""The port of the store: a key-value store in which services keep their state.

Keys are text, ordered by their UTF-8 bytes. One counter, the revision, grows with every write of
the whole store. An entry has the revision of the write that last put it. So a revision identifies a
point in time, is never used twice, and can serve as an epoch.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from penstock.model.errors import ConfigError, RetriableError

FORMAT: Final = 1
"""Version of the stored formats. Each store has the number with which it was created. A version of
Penstock that knows only a smaller number refuses it (`store.newer`), because it could misread or
overwrite state. Raise the number only when an older version could do that, not for a new field."""

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
    """Entries in order of key, all at `revision`. `more`: other keys follow the last one.

    `revision` is never 0: a watch after it misses no write.
    """

    entries: tuple[Entry, ...]
    revision: int
    more: bool = False


@dataclass(frozen=True, slots=True)
class Check:
    """A condition of a write. `revision` 0: the key must not exist; n: it must have revision n;
    None: any state passes.
    """

    key: str
    revision: int | None


@dataclass(frozen=True, slots=True)
class Change:
    """A hint that keys were written up to `revision`. Without keys: list again."""

    revision: int
    keys: tuple[str, ...] = ()


class Conflict(RetriableError):  # noqa: N818 - a word of the port, as Entry and Check are
    """A check failed and nothing was written. `revision`: the current one of the key; 0: none."""

    def __init__(self, key: str, revision: int) -> None:
        self.key, self.revision = key, revision
        super().__init__(
            "store.conflict",
            f"`{key}` is at revision {revision}: another write came first",
            fix="Read again and repeat the change.",
        )


class Store(Protocol):
    """A store. Every method may raise a PenstockError with a `store.*` code."""

    async def get(self, *keys: str) -> Mapping[str, Entry]:
        """Read keys at one revision; those that do not exist are absent."""

    async def range(self, prefix: str, after: str = "", limit: int = 1000) -> Page:
        """Read the keys that start with `prefix` and come after `after`, at one revision."""

    async def write(self, checks: Sequence[Check], puts: Sequence[Put]) -> int:
        """Put all or nothing, if every check passes; return the revision of the write.

        The write is durable when this returns. The outcome is unknown to a caller that is
        cancelled meanwhile. Raises `Conflict` when a check fails.
        """

    def watch(self, prefix: str, after_revision: int = 0) -> AsyncIterator[Change]:
        """Iterate over changes of keys under `prefix` after a revision; 0: from this call on.

        Changes are hints, never state (invariant 7): they may be merged, and a watcher that is too
        far behind gets a `Change` without keys. Ends when the store is closed.
        """

    def statistics(self) -> Mapping[str, int]:
        """Return the number of durable `writes`, and of their transactions (`groups`)."""

    async def close(self) -> None:
        """Finish the waiting writes and close. Idempotent."""


def newer_format(where: str, found: object) -> ConfigError:
    """Return the error for a store that a newer version has written."""
    return ConfigError(
        "store.newer",
        f"{where} was written by a newer version (format {found}, this one knows {FORMAT})",
        fix="Start the newer version, or restore a backup from before the upgrade.",
    )
