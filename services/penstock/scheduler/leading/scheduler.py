"""An instance of the scheduler: leads, again and again, or knows who does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from penstock.model.errors import FencedError, PenstockError
from penstock.model.metrics import Number, numbers_of
from penstock.scheduler.leading.leader import Leader
from penstock.scheduler.leading.leadership import Leadership, not_leader, starting
from penstock.scheduler.state.events import Member


class Scheduler:
    """One instance. Whoever wires it runs `lead()` each time that it was elected, and tells it the
    members whenever they change.
    """

    def __init__(self, leadership: Leadership, make: Callable[[], Leader]) -> None:
        """`make` makes the leader of one time: it knows nothing of those before."""
        self._leadership, self._make = leadership, make
        self._leader: Leader | None = None
        self._begun = False
        self._members: tuple[tuple[Member, ...], int] | None = None

    async def lead(self) -> None:
        """Lead until another one does: then it returns. Cancel it to resign.

        Raises:
            PenstockError: it cannot go on, for instance because its store is not readable.
        """
        leader = self._leader = self._make()
        self._begun = True
        try:
            if self._members is not None:
                leader.members(*self._members)
            await leader.run()
        except FencedError:
            return
        finally:
            self._leader = None

    def members(self, members: Iterable[Member], revision: int) -> None:
        """Take in who is alive by lease, as of a revision."""
        self._members = (tuple(members), revision)
        if self._leader is not None:
            self._leader.members(*self._members)

    @property
    def leadership(self) -> Leadership:
        """Who leads."""
        return self._leadership

    def leader(self) -> Leader:
        """Return the leader, if it is this instance.

        Raises:
            RetriableError: `scheduler.not_leader`, with the address of the one that is, or
                `scheduler.starting`: it is this one, and it has not begun.
        """
        if self._leader is None or not self._leadership.leads():
            raise self.refusal()
        return self._leader

    def numbers(self) -> Iterator[Number]:
        """Tell what it has done as the leader; nothing while it is not."""
        if self._leader is not None:
            yield from numbers_of("leader", self._leader.statistics())

    def refusal(self) -> PenstockError:
        """Return the error for who asked the wrong instance, or the right one too early."""
        if not self._begun and self._leadership.leads():
            return starting("cluster")
        return not_leader(self._leadership.leader())
