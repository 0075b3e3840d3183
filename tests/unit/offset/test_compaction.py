"""Commits of many partitions: a journal that is visible at once, and compacted later."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

import pytest

from penstock.model.errors import FencedError, PenstockError, RetriableError
from penstock.offset import Commit, commits, compaction, journal

G, T = "g1", "g1-0"
MANY = [f"p{n:05d}" for n in range(1500)]


def step(offsets, epoch=5, task=T):
    return Commit(G, task, epoch, offsets)


async def listed(room, prefix=""):
    return {id_: body async for page in room.edits.list(G, prefix) for id_, body in page.items()}


async def taken(room, commit):
    try:
        await room.commits.commit(commit)
    except RetriableError:
        return False
    return True


async def keys(room, prefix):
    found, after, more = [], "", True
    while more:
        page = await room.store.range(prefix, after)
        found += [entry.key for entry in page.entries]
        after, more = found[-1] if found else "", page.more
    return found


@pytest.fixture
def journaled(monkeypatch):
    """Makes a journal of every commit of more than two partitions, and folds of three."""
    monkeypatch.setattr(commits, "MAX_DIRECT_PARTITIONS", 2)
    monkeypatch.setattr(compaction, "BATCH_SIZE", 3)


@pytest.fixture
def asleep(monkeypatch):
    """Nobody folds in the background."""
    monkeypatch.setattr(compaction.Compactor, "schedule", lambda *_: None)


def test_a_large_commit_is_one_write_and_read_at_once(room, asleep):
    async def test(room):
        await room.commits.claim(G, T, 5)
        before = room.store.statistics()["writes"]
        await room.commits.commit(step(dict.fromkeys(MANY, b"1")))
        assert room.store.statistics()["writes"] == before + 1
        assert await keys(room, f"offset/{G}/") == []
        assert await room.edits.get(G, MANY) == dict.fromkeys(MANY, b"1")
        assert await room.another().edits.get(G, MANY) == dict.fromkeys(MANY, b"1")
        assert await listed(room, "p0000") == dict.fromkeys(MANY[:10], b"1")

    room(test)


def test_a_commit_beyond_one_request_of_etcd_counts_at_once(room, asleep):
    async def test(room):
        await room.commits.claim(G, T, 5)
        large = {id_: bytes(2000) for id_ in MANY}
        await room.commits.commit(step(large))
        assert await listed(room.another()) == large

    room(test)


def test_compaction_moves_everything_into_the_version_and_leaves_no_journal(room):
    async def test(room):
        await room.commits.claim(G, T, 5)
        await room.commits.commit(step(dict.fromkeys(MANY, b"1")))
        await room.folder.compact_all(G)
        assert await keys(room, "journal/") == []
        assert len(await keys(room, f"offset/{G}/")) == len(MANY)
        assert await listed(room) == dict.fromkeys(MANY, b"1")
        history = await room.edits.list_history(G, MANY[0])
        assert [version.body for version in history] == [b"1"]

    room(test)


def test_a_commit_during_the_compaction_of_older_ones_is_not_lost(room, asleep, journaled):
    """Its journal is older than the value that the fold writes, and not in it."""

    async def test(room):
        await room.commits.claim(G, T, 5)
        await room.commits.commit(step(dict.fromkeys("abcdefgh", b"1")))
        write, late = room.store.write, [b"2", b"3"]

        async def between(checks, puts):
            if late and all(key.startswith("offset/") for key, _ in puts):
                body = late.pop(0)
                await room.commits.commit(step(dict.fromkeys("abcdefgh", body)))
            return await write(checks, puts)

        room.store.write = between
        await room.another().folder.compact_all(G)
        assert not late
        assert await listed(room) == dict.fromkeys("abcdefgh", b"3")
        bodies = [version.body for version in await room.edits.list_history(G, "a")]
        assert bodies == [b"3", b"2", b"1"]

    room(test)


def test_a_small_commit_over_a_journal_stays_newest(room, asleep):
    async def test(room):
        await room.commits.claim(G, T, 5)
        await room.commits.commit(step(dict.fromkeys(MANY, b"1")))
        await room.commits.commit(step({MANY[0]: b"2"}))
        assert (await room.edits.get(G, MANY[:2])) == {MANY[0]: b"2", MANY[1]: b"1"}
        await room.another().folder.compact_all(G)
        assert (await room.edits.get(G, MANY[:2])) == {MANY[0]: b"2", MANY[1]: b"1"}
        assert [v.body for v in await room.edits.list_history(G, MANY[0])] == [b"2", b"1"]

    room(test)


def test_a_large_commit_does_not_overwrite_a_newer_owner(room, journaled):
    async def test(room):
        await room.commits.claim(G, "g1-0", 5)
        await room.commits.claim(G, "g1-1", 9)
        await room.commits.commit(step({"c": b"9"}, 9, "g1-1"))
        with pytest.raises(FencedError, match=r"partition c is at epoch 9, 5 is older"):
            await room.commits.commit(step(dict.fromkeys("abc", b"5"), 5, "g1-0"))
        assert await room.edits.get(G, ["a", "b", "c"]) == {"c": b"9"}

    room(test)


@pytest.mark.parametrize("seed", range(6))
def test_every_instance_reads_what_was_committed_last(room, journaled, seed):
    """Small and large commits of two instances, folds and reads of both, in a random order."""

    async def test(room):
        rng = random.Random(seed)
        rooms = [room, room.another(), room.another()]
        model = {}

        async def owner(number):
            task, names = f"g1-{number}", [f"{number}.{n}" for n in range(12)]
            await room.commits.claim(G, task, 5 + number)
            for count in range(25):
                some = rng.sample(names, rng.choice((1, 2, 3, 12)))
                offsets = dict.fromkeys(some, b"%d" % count)
                while not await taken(rng.choice(rooms), step(offsets, 5 + number, task)):
                    pass
                model.update(offsets)
                assert await rng.choice(rooms).edits.get(G, names) == {
                    name: model[name] for name in names if name in model
                }

        async with asyncio.TaskGroup() as group:
            for number in range(4):
                group.create_task(owner(number))
        for one in rooms:
            assert await listed(one) == model
            await one.folder.compact_all(G)
        assert await listed(room) == model
        for one in rooms[1:]:
            await one.folder.close()

    room(test)


def test_commits_wait_when_too_many_journals_are_not_compacted(room, monkeypatch, journaled):
    async def test(room):
        await room.commits.claim(G, T, 5)
        for number in range(10):
            await room.commits.commit(step(dict.fromkeys("abcd", b"%d" % number)))
            assert len((await room.view.read_manifest(G)).value.journals) <= 3
        assert await listed(room) == dict.fromkeys("abcd", b"9")

    monkeypatch.setattr(commits, "MAX_JOURNALS", 3)
    room(test)


@pytest.mark.parametrize("point", ["offset.folding", "store.committing"])
def test_a_compaction_that_fails_is_retried(room, arm, monkeypatch, point, journaled):
    async def test(room):
        await room.commits.claim(G, T, 5)
        arm(f"{point}=raise@3")
        for number in range(4):
            with suppress(PenstockError):
                await room.commits.commit(step(dict.fromkeys("abcd", b"%d" % number)))
        arm("")
        before = await listed(room)
        async with asyncio.timeout(60):
            while await keys(room, "journal/"):
                await asyncio.sleep(0.01)
        assert await listed(room) == before

    monkeypatch.setattr(compaction, "RETRY_DELAY_S", 0.01)
    room(test)


def test_the_next_start_compacts_what_was_left_and_deletes_orphans(room, asleep, monkeypatch):
    async def test(room):
        await room.commits.claim(G, T, 5)
        await room.commits.commit(step(dict.fromkeys(MANY, b"1")))
        orphan = f"journal/{G}/{journal.new_id(int(room.clock.now * 1000))}/0000"
        await room.store.write([], [(orphan, b"cut off")])
        room.clock.now += 3600
        monkeypatch.undo()
        later = room.another()
        await later.folder.resume()
        async with asyncio.timeout(60):
            while await keys(room, "journal/"):
                await asyncio.sleep(0.01)
        assert await listed(later) == dict.fromkeys(MANY, b"1")
        await later.folder.close()

    room(test)


def test_a_clock_that_is_ahead_loses_no_commit_that_is_under_way(room, asleep, monkeypatch):
    """Another instance starts while a commit is between its chunks and what makes them count."""

    async def test(room):
        await room.commits.claim(G, T, 5)
        ahead = room.another()
        staged = commits.stage_journal
        swept = []

        async def interrupted(*args):
            puts = await staged(*args)
            if not swept:
                room.clock.now += 3600
                await ahead.folder.resume()
                swept.append(await keys(room, "journal/"))
            return puts

        monkeypatch.setattr(commits, "stage_journal", interrupted)
        monkeypatch.setattr(journal, "INLINE_CHUNKS", 0)
        await room.commits.commit(step(dict.fromkeys(MANY, b"1")))
        assert swept == [[]]
        assert await listed(room.another()) == dict.fromkeys(MANY, b"1")
        await ahead.folder.close()

    room(test)
