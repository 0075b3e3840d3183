"""Being the one instance that decides: a small port, and two ways to have it.

A lease does not exclude: a leader that was paused wakes up and believes that it leads. So the port
does not only say who leads, it also writes, and what it writes holds only while that is so
(invariant 4).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from penstock.model import faults
from penstock.model.errors import FencedError, RetriableError
from penstock.store import ANY, Check, Conflict, Store
from penstock.store.port import Put

LEADER: Final = "scheduler/leader"


class Leadership(Protocol):
    """Who leads, and the writes of the leader."""

    def leads(self) -> bool:
        """Tell whether this instance leads, as far as it knows, at once."""

    def leader(self) -> str:
        """Return the address of the leader; "" when none is known."""

    async def write(self, checks: Sequence[Check], puts: Sequence[Put]) -> int:
        """Put all or nothing, if this instance leads and every check holds; returns the revision.

        Raises:
            FencedError: another one leads, or may.
            Conflict: a check failed.
        """


class SoleLeader:
    """The only instance there is: one process, whose store is locked against others."""

    def __init__(self, store: Store, address: str) -> None:
        self._store, self._address = store, address

    def leads(self) -> bool:
        """It does."""
        return True

    def leader(self) -> str:
        """Return its own address."""
        return self._address

    async def write(self, checks: Sequence[Check], puts: Sequence[Put]) -> int:
        """Write to the store."""
        return await self._store.write(checks, puts)


class StoreLeadership:
    """Leadership by a key of a store, for instances that share one.

    Whoever took the key last leads; every write compares its revision. There is no lease in it: an
    operator, or an election elsewhere, decides who takes it.
    """

    def __init__(self, store: Store, address: str) -> None:
        self._store, self._address = store, address
        self._token = 0
        self._leader = ""

    async def take(self) -> None:
        """Lead from now on: whoever led before does so no more."""
        while True:
            entry = (await self._store.get(LEADER)).get(LEADER)
            try:
                self._token = await self._store.write(
                    [Check(LEADER, entry.revision if entry else 0)],
                    [(LEADER, self._address.encode())],
                )
            except Conflict:
                continue
            self._leader = self._address
            return

    async def look(self) -> None:
        """Learn who leads now."""
        entry = (await self._store.get(LEADER)).get(LEADER)
        self._leader = entry.value.decode() if entry else ""
        if entry is None or entry.revision != self._token:
            self._token = 0

    def leads(self) -> bool:
        """Tell whether the key was ours when we saw it last."""
        return self._token > 0

    def leader(self) -> str:
        """Return who led when we saw it last."""
        return self._leader

    async def write(self, checks: Sequence[Check], puts: Sequence[Put]) -> int:
        """Write, if the key is still ours."""
        token = ANY if faults.hit("scheduler.leader_check") else self._token
        if token == 0:
            raise fenced(self._leader)
        try:
            return await self._store.write([Check(LEADER, token), *checks], puts)
        except Conflict as conflict:
            if conflict.key != LEADER:
                raise
            await self.look()
            raise fenced(self._leader) from conflict


def not_leader(leader: str) -> RetriableError:
    """Return the error for who asks an instance that does not lead, with the address of the one
    that does.
    """
    return RetriableError(
        "scheduler.not_leader",
        f"this instance does not lead; {leader or 'nobody is known to lead'}"
        + (" does" if leader else ""),
        fix=f"Ask {leader}." if leader else "Ask again after the election.",
        suggestion=leader,
        retry_after=0.0 if leader else 0.5,
    )


def starting(what: str) -> RetriableError:
    """Return the error for who asks a new leader about something that it does not know yet."""
    return RetriableError(
        "scheduler.starting",
        f"this instance leads since a moment ago, and does not know the {what} yet",
        fix="Ask again. If this lasts, see whether the scheduler reaches its store and the config "
        "service.",
        retry_after=0.2,
    )


def fenced(leader: str) -> FencedError:
    """Return the error that ends a leader: its write was refused, because another one leads."""
    return FencedError(
        "scheduler.not_leader",
        f"a write of this instance was refused: {leader or 'another one'} leads now",
        fix="It is elected again when the leader ends.",
        suggestion=leader,
    )
