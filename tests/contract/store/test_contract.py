"""What every driver of the store promises."""

from __future__ import annotations

import asyncio

import pytest

from penstock.store.port import Change, Check, Conflict


async def told(store, changes, revision):
    """What a watch has told until it reached a revision: keys, or None for `list again`."""
    keys = set()
    async for change in changes:
        if not change.keys:
            return None
        keys.update(change.keys)
        if change.revision >= revision:
            return keys
    raise AssertionError("the watch ended")


def test_what_was_written_is_read_with_the_revision_of_its_write(with_store):
    async def test(store):
        first = await store.write([], [("a", b"1"), ("b", b"2")])
        second = await store.write([], [("b", b"3")])
        found = await store.get("a", "b", "missing")
        assert {k: (e.value, e.revision) for k, e in found.items()} == {
            "a": (b"1", first),
            "b": (b"3", second),
        }
        assert second > first

    with_store(test)


def test_a_removed_key_is_gone(with_store):
    async def test(store):
        await store.write([], [("a", b"1")])
        await store.write([], [("a", None)])
        assert not await store.get("a")

    with_store(test)


def test_empty_values_and_keys_of_any_text_are_kept(with_store):
    keys = ["plain", 'offset/g/{"table":"Ünïcode/\U0010ffff"}', "with\x00nul", "with\nnewline"]

    async def test(store):
        await store.write([], [(key, b"") for key in keys])
        assert set(await store.get(*keys)) == set(keys)
        page = await store.range("")
        assert [e.key for e in page.entries] == sorted(keys, key=str.encode)

    with_store(test)


@pytest.mark.parametrize("absent", [True, False])
def test_a_check_that_fails_names_the_key_and_writes_nothing(with_store, absent):
    async def test(store):
        revision = await store.write([], [("a", b"1")])
        with pytest.raises(Conflict) as caught:
            await store.write(
                [Check("a", 0 if absent else revision + 1)], [("a", b"2"), ("b", b"2")]
            )
        assert (caught.value.key, caught.value.revision) == ("a", revision)
        assert caught.value.code == "store.conflict"
        found = await store.get("a", "b")
        assert set(found) == {"a"}
        assert found["a"].value == b"1"

    with_store(test)


def test_checks_hold_for_exact_revisions_absent_keys_and_any(with_store):
    async def test(store):
        one = await store.write([Check("a", 0)], [("a", b"1")])
        two = await store.write([Check("a", one), Check("b", 0)], [("b", b"1")])
        await store.write([Check("a", None), Check("b", two)], [("a", b"2")])
        with pytest.raises(Conflict):
            await store.write([Check("a", one)], [("a", b"3")])

    with_store(test)


def test_a_key_that_came_again_has_a_revision_it_never_had(with_store):
    async def test(store):
        one = await store.write([], [("a", b"1")])
        await store.write([], [("a", None)])
        await store.write([], [("a", b"1")])
        with pytest.raises(Conflict):
            await store.write([Check("a", one)], [("a", b"2")])

    with_store(test)


def test_of_racing_writers_with_one_expectation_exactly_one_wins(with_store):
    async def test(store):
        writes = (store.write([Check("a", 0)], [("a", str(i).encode())]) for i in range(50))
        results = await asyncio.gather(*writes, return_exceptions=True)
        assert sum(isinstance(r, int) for r in results) == 1
        assert sum(isinstance(r, Conflict) for r in results) == 49

    with_store(test)


def test_revisions_are_unique_and_grow_under_concurrency(with_store):
    async def test(store):
        revisions = await asyncio.gather(*(store.write([], [(f"k{i}", b"x")]) for i in range(300)))
        assert len(set(revisions)) == 300
        assert (await store.range("", limit=1)).revision == max(revisions)

    with_store(test)


def test_a_counter_of_many_writers_loses_no_increment(with_store):
    async def increment(store):
        while True:
            entry = (await store.get("n")).get("n")
            value = int(entry.value) if entry else 0
            try:
                await store.write(
                    [Check("n", entry.revision if entry else 0)], [("n", b"%d" % (value + 1))]
                )
            except Conflict:
                continue
            return

    async def test(store):
        await asyncio.gather(*(increment(store) for _ in range(40)))
        assert (await store.get("n"))["n"].value == b"40"

    with_store(test)


def test_a_range_has_its_prefix_only_pages_and_is_ordered(with_store):
    async def test(store):
        await store.write([], [(f"p/{i:02d}", b"x") for i in range(25)])
        await store.write([], [("p", b"x"), ("p0", b"x"), ("o/1", b"x"), ("p/\U0010ffff", b"x")])
        keys, after, more = [], "", True
        while more:
            page = await store.range("p/", after, limit=7)
            keys += [e.key for e in page.entries]
            after, more = page.entries[-1].key, page.more
        assert keys == [*(f"p/{i:02d}" for i in range(25)), "p/\U0010ffff"]

    with_store(test)


def test_a_write_is_seen_whole_or_not_at_all(with_store):
    async def test(store):
        async def write():
            for i in range(100):
                await store.write([], [("a", b"%d" % i), ("b", b"%d" % i)])

        writing = asyncio.create_task(write())
        while not writing.done():
            found = await store.get("a", "b")
            assert len({e.value for e in found.values()}) <= 1
            page = await store.range("")
            assert len({e.revision for e in page.entries}) <= 1
        await writing

    with_store(test)


def test_a_watch_tells_of_writes_under_its_prefix_after_a_revision(with_store):
    async def test(store):
        start = await store.write([], [("p/old", b"1")])
        await store.write([], [("p/1", b"1"), ("q/1", b"1")])
        last = await store.write([], [("p/2", b"1"), ("p/1", None)])
        assert await told(store, store.watch("p/", start), last) == {"p/1", "p/2"}

    with_store(test)


def test_a_watch_from_now_tells_nothing_older_than_the_call(with_store):
    async def test(store):
        await store.write([], [("p/old", b"1")])
        changes = store.watch("p/")
        waiting = asyncio.ensure_future(anext(changes))
        revision = await store.write([], [("q/other", b"1"), ("p/new", b"1")])
        assert await waiting == Change(revision, ("p/new",))

    with_store(test)


def test_a_watch_after_the_list_of_an_empty_store_misses_nothing(with_store):
    async def test(store):
        listed = await store.range("p/")
        assert listed.revision > 0
        last = await store.write([], [("p/0", b"1")])
        assert await told(store, store.watch("p/", listed.revision), last) in ({"p/0"}, None)

    with_store(test)


def test_a_watcher_behind_many_writes_misses_none_in_silence(with_store):
    async def test(store):
        first = await store.write([], [("p/0", b"1")])
        for _ in range(60):
            await asyncio.gather(*(store.write([], [("p/x", b"1")]) for _ in range(100)))
        assert await told(store, store.watch("p/", first), first + 6000) in ({"p/x"}, None)

    with_store(test)


def test_a_watcher_behind_what_is_remembered_is_told_to_list_again(with_store, forget):
    async def test(store):
        first = await store.write([], [("p/0", b"1")])
        last = await forget(store)
        change = await anext(store.watch("p/", first))
        assert change.keys == ()
        assert change.revision >= last

    with_store(test)


def test_a_watch_goes_on_after_it_told_to_list_again(with_store, forget):
    async def test(store):
        first = await store.write([], [("p/0", b"1")])
        await forget(store)
        changes = store.watch("p/", first)
        await anext(changes)
        last = await store.write([], [("p/1", b"1")])
        assert await told(store, changes, last) == {"p/1"}

    with_store(test)


def test_a_watch_from_a_revision_that_never_was_is_told_to_list_again(with_store):
    """The state was restored from a backup: what the watcher saw is not what is there."""

    async def test(store):
        last = await store.write([], [("p/0", b"1")])
        change = await anext(store.watch("p/", last + 1_000_000))
        assert change.keys == ()
        assert last <= change.revision < last + 1_000_000

    with_store(test)


def test_a_watch_from_an_earlier_life_of_the_store_misses_nothing_in_silence(opened):
    async def main():
        async with opened() as store:
            first = await store.write([], [("p/0", b"1")])
            last = await store.write([], [("p/1", b"1")])
        async with opened() as store:
            assert await told(store, store.watch("p/", first), last) in ({"p/1"}, None)

    asyncio.run(main())


def test_a_watch_ends_when_the_store_is_closed(opened):
    async def main():
        async with opened() as store:
            changes = store.watch("p/")
            waiting = asyncio.ensure_future(anext(changes, None))
            await store.write([], [("q", b"1")])
        assert await asyncio.wait_for(waiting, 60) is None

    asyncio.run(main())


def test_state_and_revision_outlive_the_process(opened):
    async def main():
        async with opened() as store:
            revision = await store.write([], [("a", b"1")])
        async with opened() as store:
            assert (await store.get("a"))["a"].revision == revision
            assert await store.write([], [("b", b"1")]) > revision

    asyncio.run(main())


def test_a_closed_store_says_so(opened):
    async def main():
        async with opened() as store:
            await store.close()
            with pytest.raises(Exception, match=r"store\.closed"):
                await store.write([], [("a", b"1")])
            with pytest.raises(Exception, match=r"store\.closed"):
                await store.get("a")

    asyncio.run(main())


def test_writes_that_wait_are_finished_before_the_store_closes(opened):
    async def main():
        async with opened() as store:
            writes = [asyncio.ensure_future(store.write([], [(f"{i}", b"")])) for i in range(500)]
            await asyncio.wait(writes, return_when=asyncio.FIRST_COMPLETED)
            await store.close()
            done = await asyncio.gather(*writes, return_exceptions=True)
        kept = {f"{i}" for i, one in enumerate(done) if isinstance(one, int)}
        # etcd may be slower than the deadline of a call: then nobody knows, and says so.
        unknown = {f"{i}" for i, one in enumerate(done) if "outcome_unknown" in str(one)}
        async with opened() as store:
            found = {entry.key for entry in (await store.range("", limit=1000)).entries}
            assert found - unknown == kept
            assert kept

    asyncio.run(main())
