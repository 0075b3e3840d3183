"""Admin operations on offsets: only when stopped, and no task overwrites them afterwards."""

from __future__ import annotations

import pytest

from penstock.model.connector import TargetState
from penstock.model.errors import ConfigError, FencedError, RetriableError
from penstock.offset import Commit, PreparedTransaction
from penstock_values.identity import partition_id

G, T = "g1", "g1-0"
P, Q = '{"t":"p"}', '{"t":"q"}'


async def committed(room, epoch=5, **offsets):
    await room.commits.claim(G, T, epoch)
    values = {partition_id({"t": name}): value for name, value in offsets.items()}
    await room.commits.commit(Commit(G, T, epoch, values))


@pytest.mark.parametrize("state", [TargetState.RUNNING, TargetState.PAUSED])
def test_altering_and_resetting_are_refused_unless_stopped(room, state):
    async def test(room):
        await committed(room, p=b"1")
        room.connectors.state = state
        for edit in (room.edits.alter("orders", G, {P: b"9"}), room.bulk.reset("orders", G)):
            with pytest.raises(ConfigError, match=rf"offset\.not_stopped.*{state.name}.*STOPPED"):
                await edit
        assert await room.edits.get(G, [P]) == {P: b"1"}

    room(test)


def test_nothing_is_changed_while_a_zombie_still_holds_a_task(room):
    """It is fenced here, and yet what it writes elsewhere would be of the offsets before."""

    async def test(room):
        await committed(room, p=b"1")
        room.connectors.running = ["g1-0", "g1-1"]

        async def rewind():
            async for _ in room.bulk.rewind("orders", G, 1):
                pass

        for edit in (
            room.edits.alter("orders", G, {P: b"9"}),
            room.bulk.reset("orders", G),
            room.bulk.reset("gone", "dead"),
            rewind(),
        ):
            with pytest.raises(RetriableError, match=r"offset\.still_held.*g1-0 and 1 more"):
                await edit
        assert await room.edits.get(G, [P]) == {P: b"1"}
        room.connectors.running = []
        await room.edits.alter("orders", G, {P: b"9"})
        assert await room.edits.get(G, [P]) == {P: b"9"}

    room(test)


def test_an_alteration_sets_and_removes_in_one_write(room):
    async def test(room):
        await committed(room, p=b"1", q=b"1")
        await room.edits.alter("orders", G, {P: b"9", Q: None, '{"t":"new"}': b""})
        assert await room.edits.get(G, [P, Q, '{"t":"new"}']) == {P: b"9", '{"t":"new"}': b""}

    room(test)


def test_a_task_that_still_runs_cannot_overwrite_an_alteration(room):
    async def test(room):
        await committed(room, epoch=5, p=b"1")
        await room.edits.alter("orders", G, {P: b"9"})
        with pytest.raises(FencedError, match=r"offset\.stale_epoch"):
            await room.commits.commit(Commit(G, T, 5, {P: b"2"}))
        with pytest.raises(FencedError):
            await room.commits.claim(G, "g1-7", 100)  # planned before, never claimed
        assert await room.edits.get(G, [P]) == {P: b"9"}

    room(test)


def test_the_next_start_goes_on_from_an_alteration(room):
    async def test(room):
        await committed(room, epoch=5, p=b"1")
        await room.edits.alter("orders", G, {P: b"9"})
        await committed(room, epoch=101, p=b"10")
        assert await room.edits.get(G, [P]) == {P: b"10"}

    room(test)


@pytest.mark.parametrize("how", ["alter", "reset", "rewind"])
def test_the_floor_is_of_the_counter_that_epochs_are_from(room, how):
    """The stores of offsets and connectors count by themselves, each commit once: a floor of theirs
    would fence every start for as long as epochs are behind.
    """

    async def test(room):
        await committed(room, epoch=5, p=b"1")
        if how == "alter":
            await room.edits.alter("orders", G, {P: b"9"})
        elif how == "reset":
            await room.bulk.reset("orders", G)
        else:
            assert [step async for step in room.bulk.rewind("orders", G, 1)]
        with pytest.raises(FencedError, match=r"offset\.stale_epoch"):
            await room.commits.claim(G, "g1-7", 100)  # a zombie: given out before, never claimed
        await committed(room, epoch=101, p=b"10")
        assert await room.edits.get(G, [P]) == {P: b"10"}

    room(test)


def test_a_claimed_epoch_is_fenced_even_when_the_scheduler_does_not_know_it(room):
    async def test(room):
        await committed(room, epoch=150, p=b"1")  # the revision that it answers is 100
        await room.edits.alter("orders", G, {P: b"9"})
        with pytest.raises(FencedError, match=r"offset\.stale_epoch"):
            await room.commits.commit(Commit(G, T, 150, {P: b"2"}))
        await committed(room, epoch=151, p=b"10")
        assert await room.edits.get(G, [P]) == {P: b"10"}

    room(test)


def test_a_reset_removes_all_offsets_of_the_generation_and_no_other(room):
    async def test(room):
        many = {partition_id({"n": i}): b"x" for i in range(1234)}
        await room.commits.claim(G, T, 5)
        await room.commits.commit(Commit(G, T, 5, many))
        await room.commits.claim("g2", "g2-0", 5)
        await room.commits.commit(Commit("g2", "g2-0", 5, {P: b"other"}))
        await room.bulk.reset("orders", G)
        assert [page async for page in room.edits.list(G, "")] == []
        assert await room.edits.get("g2", [P]) == {P: b"other"}
        with pytest.raises(FencedError):
            await room.commits.commit(Commit(G, T, 5, {P: b"2"}))

    room(test)


def test_a_reset_keeps_a_transaction_that_must_be_recovered(room):
    """Its rows are committed: to forget it would lose them."""

    async def test(room):
        await room.commits.claim(G, T, 5)
        await room.commits.commit(Commit(G, T, 5, {P: b"1"}, PreparedTransaction(1, b"files", 5)))
        await room.bulk.reset("orders", G)
        assert (await room.commits.claim(G, T, 101)).needs_recovery

    room(test)


def test_offsets_of_a_deleted_connector_can_be_reset_and_not_altered(room):
    async def test(room):
        await room.commits.claim("dead", "dead-0", 5)
        await room.commits.commit(Commit("dead", "dead-0", 5, {P: b"1"}))
        with pytest.raises(ConfigError, match=r"offset\.connector_not_found"):
            await room.edits.alter("gone", "dead", {P: b"2"})
        await room.bulk.reset("gone", "dead")
        assert await room.edits.get("dead", [P]) == {}

    room(test)


def test_a_generation_of_another_connector_is_refused(room):
    async def test(room):
        room.connectors.names["g9"] = "other"
        with pytest.raises(ConfigError, match=r"offset\.generation_mismatch"):
            await room.bulk.reset("orders", "g9")

    room(test)


@pytest.mark.parametrize("id_", ["p", '{"b":1,"a":2}', '{"a": 1}', "[1]", "{"])
def test_an_id_that_is_not_canonical_is_refused_with_the_canonical_one(room, id_):
    async def test(room):
        with pytest.raises(ConfigError, match=r"offset\.partition_id") as caught:
            await room.edits.alter("orders", G, {id_: b"1"})
        if id_ == '{"b":1,"a":2}':
            assert caught.value.diagnostic.suggestion == '{"a":2,"b":1}'

    room(test)


def test_a_list_is_paged_ordered_and_filtered(room):
    async def test(room):
        ids = [partition_id({"db": db, "n": f"{i:04d}"}) for db in ("a", "b") for i in range(600)]
        await room.commits.claim(G, T, 5)
        await room.commits.commit(Commit(G, T, 5, dict.fromkeys(ids, b"x")))
        await room.folder.compact_all(G)
        pages = [page async for page in room.edits.list(G, '{"db":"b"')]
        assert len(pages) > 1
        assert [id_ for page in pages for id_ in page] == ids[600:]

    room(test)
