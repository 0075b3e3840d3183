"""Finding each other: the members of a service, as last listed (invariant 7).

While etcd is away the last list stays: services go on to speak to whom they know.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from penstock.etcd.client import Etcd
from penstock.etcd.membership import PLACE, Member
from penstock.etcd.ops import Kv
from penstock.etcd.snapshots import LIST_EVERY, hints
from penstock.model.errors import PenstockError

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Members:
    """The members of a service by id, as they were at a revision."""

    revision: int
    members: Mapping[str, Member]


_NOBODY = Members(0, MappingProxyType({}))


class Discovery:
    """Follows the members of one service from `start` until `stop`. Owned by whoever made it."""

    def __init__(self, client: Etcd, service: str, every: float = LIST_EVERY) -> None:
        """Prepare to follow `members/<service>/`."""
        self._client, self._service, self._every = client, service, every
        self._prefix = f"{client.prefix}{PLACE}{service}/"
        self._now = _NOBODY
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def now(self) -> Members:
        """The members as last listed; revision 0 when they never were."""
        return self._now

    def start(self) -> None:
        """Begin to follow."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def after(self, revision: int) -> Members:
        """Return the members as they are after a revision; waits for a change. 0 for any list.

        Raises:
            PenstockError: etcd refuses: credentials, permissions.
        """
        while self._now.revision <= revision:
            if self._task is not None and self._task.done():
                self._task.result()
                raise RuntimeError("the discovery was stopped")
            await self._news.wait()
        return self._now

    async def stop(self) -> None:
        """Follow no more; what was known stays readable. Idempotent."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._wake()

    async def _run(self) -> None:
        try:
            async for found in hints(self._client, self._prefix, every=self._every):
                members = dict(filter(None, map(self._read, found.entries)))
                if members != self._now.members or not self._now.revision:
                    self._now = Members(found.revision, MappingProxyType(members))
                    self._wake()
        except PenstockError as error:
            log.warning("cannot follow %s: %s", self._prefix, error)
            raise
        finally:
            self._wake()

    def _read(self, entry: Kv) -> tuple[str, Member] | None:
        id_ = entry.key.removeprefix(self._prefix)
        try:
            return id_, Member.decoded(entry.value)
        except (ValueError, KeyError, TypeError):
            log.warning("%s is not written as a member is", entry.key)
            return None

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()
