"""Claims and commits against a store: fenced, atomic, idempotent, whatever is in memory."""

from __future__ import annotations

import asyncio

import pytest

from penstock.model.errors import FencedError, InternalError, PenstockError, RetriableError
from penstock.offset import Commit, Commits, PreparedTransaction, TaskRecord

G, T = "g1", "g1-0"


def step(epoch, offsets=None, txn=0, applied=0, task=T, content=b"state", claim=0):
    prepared = PreparedTransaction(txn, content, len(content)) if txn else None
    return Commit(G, task, epoch, offsets or {}, prepared, applied, claim)


def test_a_claim_is_durable_and_fences_after_a_restart(room):
    async def test(room):
        await room.commits.claim(G, T, 9)
        anew = Commits(room.store)
        with pytest.raises(FencedError, match=r"offset\.stale_epoch"):
            await anew.claim(G, T, 5)
        with pytest.raises(FencedError, match=r"offset\.stale_epoch"):
            await anew.commit(step(5, {"p": b"1"}))
        assert await room.edits.get(G, ["p"]) == {}

    room(test)


def test_a_commit_of_an_older_epoch_is_refused_and_stores_nothing(room):
    async def test(room):
        await room.commits.claim(G, T, 5)
        await room.commits.commit(step(5, {"p": b"1"}))
        await room.commits.claim(G, T, 9)
        with pytest.raises(FencedError, match=r"offset\.stale_epoch"):
            await room.commits.commit(step(5, {"p": b"2", "q": b"2"}, txn=1))
        assert await room.edits.get(G, ["p", "q"]) == {"p": b"1"}
        assert await room.commits.claim(G, T, 9) == TaskRecord(9, claim=3)

    room(test)


def test_breaking_the_epoch_check_lets_the_older_epoch_through(room, arm):
    """The twin: what the test above asserts is not there any more."""

    async def test(room):
        await room.commits.claim(G, T, 5)
        await room.commits.claim(G, T, 9)
        await room.commits.commit(step(9, {"p": b"new"}))
        arm("offset.epoch_check=break")
        await room.commits.commit(step(5, {"p": b"old"}))
        assert await room.edits.get(G, ["p"]) == {"p": b"old"}

    room(test)


def test_an_offset_of_a_newer_epoch_is_not_overwritten_by_another_task(room):
    """Partitions move: the old owner was another task, which nobody claimed anew."""

    async def test(room):
        await room.commits.claim(G, "g1-0", 5)
        await room.commits.commit(step(5, {"p": b"1"}, task="g1-0"))
        await room.commits.claim(G, "g1-1", 9)
        await room.commits.commit(step(9, {"p": b"2"}, task="g1-1"))
        with pytest.raises(FencedError, match=r"partition .*p is at epoch 9, 5 is older"):
            await room.commits.commit(step(5, {"p": b"3", "mine": b"3"}, task="g1-0"))
        assert await room.edits.get(G, ["p", "mine"]) == {"p": b"2"}

    room(test)


def test_offsets_prepared_state_and_applied_are_one_write(room):
    async def test(room):
        await room.commits.claim(G, T, 5)
        before = room.store.statistics()["writes"]
        revision = await room.commits.commit(step(5, {"p": b"1", "q": b"1"}, txn=1))
        assert room.store.statistics()["writes"] == before + 1
        entries = await room.store.get(f"task/{G}/{T}", f"offset/{G}/p", f"offset/{G}/q")
        assert {entry.revision for entry in entries.values()} == {revision}

    room(test)


@pytest.mark.parametrize("point", ["offset.storing", "offset.stored"])
def test_a_failure_around_the_write_leaves_all_or_nothing_and_memory_agrees(room, arm, point):
    async def test(room):
        await room.commits.claim(G, T, 5)
        await room.commits.commit(step(5, {"p": b"1"}, txn=1))
        arm(f"{point}=raise@1")
        two = step(5, {"p": b"2"}, txn=2, applied=1)
        with pytest.raises(RetriableError, match=r"fault\.injected"):
            await room.commits.commit(two)
        expected = {"p": b"2" if point == "offset.stored" else b"1"}
        assert await room.edits.get(G, ["p"]) == expected
        await room.commits.commit(two)
        await room.commits.commit(step(5, {"p": b"3"}, txn=3, applied=2))
        assert await room.edits.get(G, ["p"]) == {"p": b"3"}

    room(test)


def test_a_claim_returns_what_was_prepared_and_whether_to_recover(room):
    async def test(room):
        await room.commits.claim(G, T, 5)
        await room.commits.commit(step(5, {"p": b"1"}, txn=1, content=b"files"))
        record = await Commits(room.store).claim(G, T, 9)
        assert record == TaskRecord(9, PreparedTransaction(1, b"files", 5), applied=False, claim=2)
        await room.commits.commit(step(9, {}, applied=1))
        assert not (await Commits(room.store).claim(G, T, 10)).needs_recovery

    room(test)


def test_a_commit_that_is_repeated_is_answered_with_the_same_revision(room):
    async def test(room):
        await room.commits.claim(G, T, 5)
        one = await room.commits.commit(step(5, {"p": b"1"}, txn=1))
        writes = room.store.statistics()["writes"]
        assert await room.commits.commit(step(5, {"p": b"1"}, txn=1)) == one
        assert await Commits(room.store).commit(step(5, {"p": b"1"}, txn=1)) == one
        assert room.store.statistics()["writes"] == writes

    room(test)


def test_a_late_repetition_never_takes_an_offset_back(room):
    async def test(room):
        await room.commits.claim(G, T, 5)
        await room.commits.commit(step(5, {"p": b"1"}, txn=1))
        await room.commits.commit(step(5, {"p": b"2"}, txn=2, applied=1))
        with pytest.raises(RetriableError, match=r"offset\.txn_superseded"):
            await room.commits.commit(step(5, {"p": b"1"}, txn=1))
        assert await room.edits.get(G, ["p"]) == {"p": b"2"}

    room(test)


def test_a_commit_without_a_claim_is_refused(room):
    async def test(room):
        with pytest.raises(InternalError, match=r"offset\.not_claimed"):
            await room.commits.commit(step(5, {"p": b"1"}))

    room(test)


def test_a_second_instance_sees_the_claims_of_the_first(room):
    """What an instance remembers is stale then; the store's check finds out."""

    async def test(room):
        one, two = room.commits, Commits(room.store)
        await one.claim(G, T, 5)
        await one.commit(step(5, {"p": b"1"}))
        await two.claim(G, T, 9)
        await two.commit(step(9, {"p": b"2"}))
        with pytest.raises(FencedError):
            await one.commit(step(5, {"p": b"3"}))
        with pytest.raises(FencedError):
            await one.claim(G, T, 5)
        await one.commit(step(9, {"p": b"4"}))
        await two.commit(step(9, {"p": b"5"}))
        assert await room.edits.get(G, ["p"]) == {"p": b"5"}

    room(test)


class Held:
    """A store whose writes wait, as those of a store do that is away for a moment."""

    def __init__(self, store):
        self.store, self.waits, self.goes = store, asyncio.Event(), asyncio.Event()

    def __getattr__(self, name):
        return getattr(self.store, name)

    async def write(self, *arguments):
        self.waits.set()
        await self.goes.wait()
        return await self.store.write(*arguments)


async def overtaken(room, offsets):
    """Return a commit that was decided before its task was claimed once more, and that claim."""
    first = await room.commits.claim(G, T, 5)
    held = Held(room.store)
    late = asyncio.create_task(
        Commits(held).commit(step(5, offsets, txn=1, claim=first.claim)),
    )
    await held.waits.wait()
    again = await Commits(room.store).claim(G, T, 5)
    held.goes.set()
    return late, again


@pytest.mark.parametrize("partitions", [1, 300])
def test_a_commit_of_an_earlier_claim_is_not_stored_after_a_newer_claim(room, partitions):
    """The life that follows was told that nothing is prepared, and sweeps what is."""

    async def test(room):
        offsets = {f"p{n}": b"1" for n in range(partitions)}
        late, again = await overtaken(room, offsets)
        with pytest.raises(RetriableError, match=r"offset\.claimed_again"):
            await late
        assert again.prepared is None
        assert await room.edits.get(G, list(offsets)) == {}
        await room.commits.commit(step(5, {"p0": b"2"}, txn=1, claim=again.claim))
        assert await room.edits.get(G, ["p0"]) == {"p0": b"2"}

    room(test)


def test_breaking_the_claim_check_lets_an_earlier_claim_through(room, arm):
    """The twin: offsets say that rows are there which the life that followed has swept."""

    async def test(room):
        arm("offset.claim_check=break")
        late, again = await overtaken(room, {"p0": b"1"})
        await late
        assert again.prepared is None
        assert await room.edits.get(G, ["p0"]) == {"p0": b"1"}

    room(test)


def test_a_partition_without_an_offset_is_fenced_by_the_task_alone(room):
    """An instance that remembers the old claim has no newer offset to stumble over."""

    async def test(room):
        await room.commits.claim(G, T, 5)
        await room.commits.commit(step(5, {"p": b"1"}))
        await Commits(room.store).claim(G, T, 9)
        with pytest.raises(FencedError, match=r"offset\.stale_epoch"):
            await room.commits.commit(step(5, {"new": b"2"}, txn=1))
        assert await room.edits.get(G, ["new"]) == {}

    room(test)


def test_a_commit_that_is_cancelled_leaves_the_next_one_right(room):
    async def test(room):
        await room.commits.claim(G, T, 5)
        for number in range(1, 30):
            task = asyncio.create_task(room.commits.commit(step(5, {"p": b"%d" % number})))
            for _ in range(number % 4):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait({task})
            await room.commits.commit(step(5, {"p": b"x%d" % number}))
            assert await room.edits.get(G, ["p"]) == {"p": b"x%d" % number}

    room(test)


def test_a_commit_reads_nothing_after_the_first(room):
    async def test(room):
        await room.commits.claim(G, T, 5)
        await room.commits.commit(step(5, {"p": b"1"}, txn=1))

        async def no_read(*keys):
            raise AssertionError(f"read {keys}")

        room.store.get = no_read
        for number in range(2, 10):
            await room.commits.commit(
                step(5, {"p": b"%d" % number}, txn=number, applied=number - 1)
            )

    room(test)


def test_an_error_that_memory_causes_is_decided_again_from_the_store(room):
    async def test(room):
        await room.commits.claim(G, T, 5)
        await Commits(room.store).claim(G, T, 9)
        await room.commits.commit(step(9, {"p": b"1"}))
        assert await room.edits.get(G, ["p"]) == {"p": b"1"}

    room(test)


def test_generations_do_not_meet(room):
    async def test(room):
        await room.commits.claim("g1", "g1-0", 9)
        await room.commits.commit(Commit("g1", "g1-0", 9, {"p": b"1"}))
        await room.commits.claim("g2", "g2-0", 5)
        await room.commits.commit(Commit("g2", "g2-0", 5, {"p": b"2"}))
        assert await room.edits.get("g1", ["p"]) == {"p": b"1"}
        assert await room.edits.get("g2", ["p"]) == {"p": b"2"}

    room(test)


def test_what_the_store_refuses_reaches_the_caller(room):
    async def test(room):
        await room.commits.claim(G, T, 5)
        await room.store.close()
        with pytest.raises(PenstockError, match=r"store\.closed"):
            await room.commits.commit(step(5, {"p": b"1"}))

    room(test)
