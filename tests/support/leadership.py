"""Leadership in tests of several schedulers, without an election: a test decides who leads."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.scheduler.leader.leadership import leader_fenced
from penstock.store.port import Check, Conflict, Put, Store

LEADER_KEY = "scheduler/leader"


class StoreLeadership:
    """Leadership by a key of a store that several instances share.

    The instance that acquired the key last leads; every write compares its revision. There is no
    lease: the test decides which instance acquires it.
    """

    def __init__(self, store: Store, address: str) -> None:
        self._store, self._address = store, address
        self._token = 0
        self._leader = ""
        self.compares = True
        """False: writes of a former leader are accepted (the break of invariant 4)."""

    async def acquire(self) -> None:
        """Lead from now on. The previous leader is fenced."""
        while True:
            entry = (await self._store.get(LEADER_KEY)).get(LEADER_KEY)
            try:
                self._token = await self._store.write(
                    [Check(LEADER_KEY, entry.revision if entry else 0)],
                    [(LEADER_KEY, self._address.encode())],
                )
            except Conflict:
                continue
            self._leader = self._address
            return

    async def refresh(self) -> None:
        """Read which instance leads now."""
        entry = (await self._store.get(LEADER_KEY)).get(LEADER_KEY)
        self._leader = entry.value.decode() if entry else ""
        if entry is None or entry.revision != self._token:
            self._token = 0

    def is_leader(self) -> bool:
        """Return whether this instance had the key when it was last read."""
        return self._token > 0

    def leader_address(self) -> str:
        """Return the leader when the key was last read."""
        return self._leader

    async def write(self, checks: Sequence[Check], puts: Sequence[Put]) -> int:
        """Write, if this instance still has the key."""
        token = self._token if self.compares else None
        if token == 0:
            raise leader_fenced(self._leader)
        try:
            return await self._store.write([Check(LEADER_KEY, token), *checks], puts)
        except Conflict as conflict:
            if conflict.key != LEADER_KEY:
                raise
            await self.refresh()
            raise leader_fenced(self._leader) from conflict
