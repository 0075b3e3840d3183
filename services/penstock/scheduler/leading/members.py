"""Who is alive: by lease, or, where there is none (one machine, a test), by session.

By session, a worker is alive while it has one, and for a time after that. No I/O.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from penstock.scheduler.state.events import Member


class SessionMembers:
    """The workers that have, or had a moment ago, a session. `lease` is that moment, in seconds."""

    def __init__(self, lease: float) -> None:
        self._lease = lease
        self._members: dict[str, Member] = {}
        self._closed: dict[str, float] = {}

    def expect(self, members: Iterable[Member], now: float) -> None:
        """Take workers for alive that may still come: owners of tasks, when a leader begins."""
        for member in members:
            if member.id not in self._members:
                self._members[member.id] = member
                self._closed[member.id] = now

    def opened(self, member: Member) -> None:
        """Note a session, or what a worker says of itself in it."""
        self._members[member.id] = member
        self._closed.pop(member.id, None)

    def closed(self, worker: str, now: float) -> None:
        """Note the end of a session."""
        if worker in self._members:
            self._closed[worker] = now

    def alive(self, now: float) -> list[Member]:
        """Return who is alive; forgets the others."""
        for id_ in [id_ for id_, at in self._closed.items() if now - at >= self._lease]:
            del self._members[id_], self._closed[id_]
        return list(self._members.values())

    def next_due(self) -> float | None:
        """Return when the next worker will be taken for gone."""
        return min((at + self._lease for at in self._closed.values()), default=None)


class Roster:
    """Who is alive, by lease or by session, with what each says of itself."""

    def __init__(self, session_lease: float | None) -> None:
        """`session_lease` None: members are told by `leased`, else sessions are the membership."""
        self._by_session = None if session_lease is None else SessionMembers(session_lease)
        self._leased: tuple[tuple[Member, ...], int] | None = None
        self._declared: dict[str, Member] = {}

    def leased(self, members: Iterable[Member], revision: int) -> None:
        """Take in who is alive by lease, as of the revision of the list."""
        self._leased = (tuple(members), revision)
        alive = {member.id for member in self._leased[0]}
        self._declared = {id_: m for id_, m in self._declared.items() if id_ in alive}

    def expect(self, owners: Iterable[Member], now: float) -> None:
        """Take the owners of tasks for alive, where nothing but their sessions can tell."""
        if self._by_session is not None:
            self._by_session.expect(owners, now)

    def declare(self, member: Member) -> bool:
        """Take in what a worker says of itself in its session; tells whether it is new."""
        if self._by_session is not None:
            self._by_session.opened(member)
        if self._declared.get(member.id) == member:
            return False
        self._declared[member.id] = member
        return True

    def closed(self, worker: str, now: float) -> None:
        """Note the end of a session."""
        if self._by_session is not None:
            self._by_session.closed(worker, now)

    def alive(self, now: float, revision: int) -> tuple[list[Member], int] | None:
        """Return who is alive as of a revision, `revision` for sessions; None: not known yet."""
        if self._by_session is not None:
            members = self._by_session.alive(now)
            self._declared = {m.id: self._declared.get(m.id, m) for m in members}
            return members, revision
        if self._leased is None:
            return None
        members_, at = self._leased
        return [_merged(member, self._declared.get(member.id)) for member in members_], at

    def next_due(self) -> float | None:
        """Return when somebody will be taken for gone without news."""
        return None if self._by_session is None else self._by_session.next_due()


class Namesakes:
    """Finds workers that share a name; each name once. `rebalance.delay` waits for none of them,
    because the other one seems to be the one that came back.
    """

    def __init__(self) -> None:
        self._told: set[str] = set()

    def found(self, members: Iterable[Member]) -> dict[str, list[str]]:
        """Return the names that are new here with the ids of those that share them."""
        by_name: dict[str, list[str]] = {}
        for member in members:
            if member.name and member.name not in self._told:
                by_name.setdefault(member.name, []).append(member.id)
        shared = {name: sorted(ids) for name, ids in by_name.items() if len(ids) > 1}
        self._told.update(shared)
        return shared


def _merged(member: Member, declared: Member | None) -> Member:
    """Return a member by lease with what it says of itself in its session."""
    if declared is None:
        return member
    return replace(declared, address=member.address or declared.address)
