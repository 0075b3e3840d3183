"""Reset and rewind: every offset at once or none, and only when nothing runs."""

from __future__ import annotations

import asyncio

import pytest

from penstock.model.connector import TargetState
from penstock.model.errors import ConfigError, FencedError, PenstockError, RetriableError
from penstock.offset import Commit

G, T = "g1", "g1-0"
MANY = [f"p{n:05d}" for n in range(700)]


async def committed(room, offsets, epoch=5):
    await room.commits.claim(G, T, epoch)
    return await room.commits.commit(Commit(G, T, epoch, offsets))


async def listed(room):
    return {id_: body async for page in room.edits.list(G, "") for id_, body in page.items()}


async def rewound(room, seconds, **options):
    steps = room.bulk.rewind("orders", G, int(seconds * 1000), **options)
    return [progress async for progress in steps]


async def three_times(room):
    """Commit at 1,000,000 s all, 100 s later some, 100 s later others."""
    await committed(room, dict.fromkeys(MANY, b"1"))
    room.clock.now += 100
    await committed(room, dict.fromkeys(MANY[:300], b"2"))
    room.clock.now += 100
    await committed(room, dict.fromkeys(MANY[200:400], b"3") | {"new": b"3"})


def test_a_rewind_gives_every_partition_what_it_had(room):
    async def test(room):
        await three_times(room)
        steps = await rewound(room, 1_000_150)
        assert await listed(room) == dict.fromkeys(MANY, b"1") | dict.fromkeys(MANY[:300], b"2")
        last = steps[-1]
        assert last.revision
        assert (last.seen, last.changed, last.removed) == (len(MANY) + 1, 201, 1)
        assert all(not step.revision and not step.changes for step in steps[:-1])

    room(test)


def test_a_rewind_can_be_taken_back_by_another(room):
    async def test(room):
        await three_times(room)
        before = await listed(room)
        now = room.clock.now
        room.clock.now += 100
        await rewound(room, 1_000_050)
        assert await listed(room) == dict.fromkeys(MANY, b"1")
        await rewound(room, now)
        assert await listed(room) == before

    room(test)


def test_a_dry_run_returns_the_changes_and_makes_none_even_while_tasks_run(room):
    async def test(room):
        await three_times(room)
        room.connectors.state = TargetState.RUNNING
        before = await listed(room)
        steps = await rewound(room, 1_000_150, dry_run=True)
        changes = {change.partition_id: change for step in steps for change in step.changes}
        assert changes.keys() == {*MANY[200:400], "new"}
        assert (changes[MANY[250]].before, changes[MANY[250]].after) == (b"3", b"2")
        assert changes[MANY[250]].after_written_at_ms == 1_000_100_000
        assert changes["new"].after is None
        assert await listed(room) == before
        assert steps[-1].revision == 0

    room(test)


def test_a_rewind_of_a_prefix_leaves_the_others(room):
    async def test(room):
        await three_times(room)
        await rewound(room, 1_000_050, prefix="p0025")
        found = await listed(room)
        assert found[MANY[250]] == b"1"
        assert found[MANY[260]] == b"3"
        assert found["new"] == b"3"

    room(test)


@pytest.mark.parametrize("state", [TargetState.RUNNING, TargetState.PAUSED])
def test_a_rewind_is_refused_unless_stopped(room, state):
    async def test(room):
        await committed(room, {"p": b"1"})
        room.connectors.state = state
        with pytest.raises(ConfigError, match=r"offset\.not_stopped.*STOPPED"):
            await rewound(room, 1)

    room(test)


def test_a_task_that_still_runs_is_fenced_before_anything_changes(room):
    async def test(room):
        await committed(room, dict.fromkeys(MANY, b"1"))
        steps = room.bulk.rewind("orders", G, 0)
        await anext(steps)
        for offsets in ({"p": b"late"}, dict.fromkeys(MANY, b"late")):
            with pytest.raises(FencedError, match=r"offset\.stale_epoch"):
                await room.commits.commit(Commit(G, T, 5, offsets))
        await steps.aclose()
        assert await listed(room) == dict.fromkeys(MANY, b"1")

    room(test)


@pytest.mark.parametrize("other", ["claim", "alter"])
def test_what_comes_between_makes_it_change_nothing(room, other):
    async def test(room):
        await committed(room, dict.fromkeys(MANY, b"1"))
        steps = room.bulk.rewind("orders", G, 0)
        await anext(steps)
        if other == "claim":
            await room.another().commits.claim(G, T, 101)
        else:
            await room.edits.alter("orders", G, {'{"t":"x"}': b"9"})
        with pytest.raises(RetriableError, match=r"offset\.overtaken"):
            async for _ in steps:
                pass
        rest = {'{"t":"x"}': b"9"} if other == "alter" else {}
        assert await listed(room) == dict.fromkeys(MANY, b"1") | rest
        await swept(room)

    room(test)


async def swept(room):
    """Wait until no line is left but one."""
    async with asyncio.timeout(60):
        while (await room.view.read_manifest(G)).value.dead_versions:
            await asyncio.sleep(0.01)
    line = (await room.view.read_manifest(G)).value.version
    page = await room.store.range("line/")
    assert all(entry.key.startswith(f"line/{G}/{line}/") for entry in page.entries if line)
    assert line or not page.entries


def test_an_interrupted_reset_changes_nothing_and_the_next_one_deletes_what_it_left(room, arm):
    async def test(room):
        await committed(room, dict.fromkeys(MANY, b"1"))
        arm("offset.copying=raise@2")
        with pytest.raises(PenstockError, match=r"fault\.injected"):
            await room.bulk.reset("orders", G)
        arm("")
        assert await listed(room) == dict.fromkeys(MANY, b"1")
        await room.bulk.reset("orders", G)
        assert await listed(room) == {}
        await swept(room)

    room(test)


def test_an_abandoned_version_is_deleted_at_the_next_start(room, arm):
    async def test(room):
        await committed(room, dict.fromkeys(MANY, b"1"))
        arm("offset.copying=raise@2")
        with pytest.raises(PenstockError, match=r"fault\.injected"):
            await room.bulk.reset("orders", G)
        arm("")
        later = room.another()
        await later.folder.resume()
        assert (await room.view.read_manifest(G)).value.pending_version  # it may still be at work
        room.clock.now += 3600
        await later.folder.resume()
        await swept(room)
        assert await listed(room) == dict.fromkeys(MANY, b"1")
        await later.folder.close()

    room(test)


def test_nothing_is_left_of_a_deleted_connector_after_a_reset_that_forgets(room):
    async def test(room):
        await committed(room, dict.fromkeys(MANY, b"1"))
        room.connectors.names.clear()
        await room.bulk.reset("orders", G, forget=True)
        with pytest.raises(FencedError, match=r"offset\.stale_epoch"):
            await room.another().commits.claim(G, T, 10**9)
        async with asyncio.timeout(60):
            while (await room.store.range("")).entries:
                await asyncio.sleep(0.01)

    room(test)


def test_a_reset_can_be_rewound_unless_it_forgets(room):
    async def test(room):
        await committed(room, dict.fromkeys(MANY, b"1"))
        now = room.clock.now
        room.clock.now += 10
        await room.bulk.reset("orders", G)
        assert await listed(room) == {}
        assert [v.body for v in await room.edits.list_history(G, MANY[0])] == [None, b"1"]
        await rewound(room, now)
        assert await listed(room) == dict.fromkeys(MANY, b"1")
        await room.bulk.reset("orders", G, forget=True)
        assert await room.edits.list_history(G, MANY[0]) == []
        await rewound(room, now)
        assert await listed(room) == {}
        await swept(room)

    room(test)


def test_a_list_fails_when_offsets_are_reset_meanwhile(room):
    async def test(room):
        await committed(room, dict.fromkeys(MANY, b"1"))
        await room.folder.compact_all(G)
        pages = room.edits.list(G, "")
        await anext(pages)
        await room.bulk.reset("orders", G)
        with pytest.raises(RetriableError, match=r"offset\.list_superseded"):
            async for _ in pages:
                pass

    room(test)


def test_commits_continue_in_the_new_version(room):
    async def test(room):
        await committed(room, dict.fromkeys(MANY, b"1"))
        await room.bulk.reset("orders", G)
        await committed(room, {"p": b"2"}, epoch=101)
        await committed(room, dict.fromkeys(MANY[:200], b"3"), epoch=102)
        await room.folder.compact_all(G)
        assert await listed(room.another()) == dict.fromkeys(MANY[:200], b"3") | {"p": b"2"}

    room(test)
