"""What the process of a scheduler passes to it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from penstock.cluster import control_process
from penstock.etcd import Member, Members


class Discovery:
    """A list of members, as of a revision of etcd, once."""

    async def wait_for_change(self, revision: int) -> Members:
        if revision:
            await asyncio.Event().wait()
        return Members(7, {"w-1": Member("h:1")})


def test_members_are_as_of_a_revision_that_the_scheduler_can_compare_with_epochs():
    """After a restore epochs are ahead of etcd's revisions: a list of members must not look older
    than every record, or the owner of a record is never missing in it.
    """
    seen: list[tuple[list[str], int]] = []
    updated = asyncio.Event()

    def update_members(alive, revision):
        seen.append(([one.id for one in alive], revision))
        updated.set()

    async def main() -> None:
        service = SimpleNamespace(update_members=update_members)
        task = asyncio.create_task(control_process._members(service, Discovery(), 1 << 40))
        await updated.wait()
        task.cancel()

    asyncio.run(main())
    assert seen == [(["w-1"], (1 << 40) + 7)]
