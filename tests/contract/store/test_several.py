"""What every driver promises to writers that race, also from several processes."""

from __future__ import annotations

import asyncio

import pytest

from penstock.store.port import Change, Check, Conflict

# SQLite is not among them: its file is locked to one process and one opening of it, which
# `tests/unit/store/test_sqlite.py` shows. Nothing can share its state, so nothing is promised.
SHARED = pytest.mark.parametrize("driver", ["etcd", "postgresql"], indirect=True)


async def claim(store, epoch):
    """Become the owner, as a newer epoch does: by a compare-and-put of the owner's key."""
    while True:
        owner = (await store.get("owner")).get("owner")
        try:
            return await store.write(
                [Check("owner", owner.revision if owner else 0)], [("owner", b"%d" % epoch)]
            )
        except Conflict:
            continue


def test_an_older_epoch_is_refused_once_a_newer_one_has_claimed(with_store):
    """Invariant 4, as the port gives it: a write checks the claim it stands on."""

    async def test(store):
        old = await claim(store, 1)
        await store.write([Check("owner", old)], [("offset", b"1")])
        new = await claim(store, 2)
        with pytest.raises(Conflict) as caught:
            await store.write([Check("owner", old)], [("offset", b"late")])
        assert caught.value.revision == new
        await store.write([Check("owner", new)], [("offset", b"2")])
        assert (await store.get("offset"))["offset"].value == b"2"

    with_store(test)


def test_no_write_of_an_older_epoch_slips_in_while_epochs_change(with_store):
    async def test(store):
        taken: list[tuple[int, int]] = []  # (revision of the write, epoch)
        claims: list[tuple[int, int]] = []  # (revision of the claim, epoch)

        async def owner(epoch):
            claimed = await claim(store, epoch)
            claims.append((claimed, epoch))
            while True:
                try:
                    revision = await store.write(
                        [Check("owner", claimed)], [("offset", b"%d" % epoch)]
                    )
                except Conflict:
                    return
                taken.append((revision, epoch))
                if len(taken) > 2000:
                    return

        owners = []
        for epoch in range(8):
            owners.append(asyncio.create_task(owner(epoch)))
            seen = len(taken)
            while len(taken) < seen + 10:
                await asyncio.sleep(0)
        await claim(store, 99)
        await asyncio.gather(*owners)
        for revision, epoch in taken:
            assert max(c for c in claims if c[0] < revision)[1] == epoch

    with_store(test)


@SHARED
def test_two_instances_share_one_state_and_one_counter(opened):
    async def increment(store, times):
        for _ in range(times):
            while True:
                entry = (await store.get("n")).get("n")
                value = int(entry.value) if entry else 0
                check = Check("n", entry.revision if entry else 0)
                try:
                    await store.write([check], [("n", b"%d" % (value + 1))])
                except Conflict:
                    continue
                break

    async def main():
        async with opened() as one, opened() as two:
            await asyncio.gather(*(increment(s, 10) for s in (one, two) for _ in range(4)))
            assert (await one.get("n"))["n"].value == b"80"

    asyncio.run(main())


@SHARED
def test_revisions_of_several_instances_are_one_order(opened):
    """A reader who sees a revision sees all that is older: commits have the order of revisions."""

    async def main():
        async with opened() as one, opened() as two, opened() as reader:
            done: dict[int, str] = {}

            async def write(store, name):
                for i in range(100):
                    key = f"{name}/{i}"
                    done[await store.write([], [(key, b"x")])] = key

            writing = asyncio.gather(write(one, "a"), write(two, "b"), write(one, "c"))
            while not writing.done():
                before = dict(done)
                page = await reader.range("")
                assert {done for r, done in before.items()} <= {e.key for e in page.entries}
                assert all(entry.revision <= page.revision for entry in page.entries)
            await writing
            assert len(done) == 300

    asyncio.run(main())


@SHARED
def test_a_watch_tells_of_the_writes_of_another_instance(opened):
    async def main():
        async with opened() as one, opened() as two, asyncio.timeout(60):
            changes = one.watch("p/")
            waiting = asyncio.ensure_future(anext(changes))
            revision = await two.write([], [("p/theirs", b"1")])
            assert await waiting == Change(revision, ("p/theirs",))
            waiting = asyncio.ensure_future(anext(changes))
            revision = await two.write([], [("p/theirs", None)])
            assert await waiting == Change(revision, ("p/theirs",))

    asyncio.run(main())


def test_large_values_and_many_keys_are_read_back(with_store):
    async def test(store):
        keys = [f"k/{i:04d}" for i in range(2500)]
        for start in range(0, len(keys), 100):
            await store.write([], [(key, b"x" * 10_000) for key in keys[start : start + 100]])
        page = await store.range("k/", limit=1_000_000)
        assert [entry.key for entry in page.entries] == keys
        assert not page.more
        assert len(await store.get(*keys[:300])) == 300

    with_store(test)


def test_a_hundred_checks_and_puts_are_one_write(with_store):
    """What a commit of a hundred partitions needs."""

    async def test(store):
        keys = [f"{i}" for i in range(120)]
        first = await store.write([Check(key, 0) for key in keys], [(key, b"1") for key in keys])
        await store.write([Check(key, first) for key in keys], [(key, b"2") for key in keys])
        checks = [Check(key, first if key == "77" else None) for key in keys]
        with pytest.raises(Conflict) as caught:
            await store.write(checks, [(key, b"3") for key in keys])
        assert caught.value.key == "77"
        assert {e.value for e in (await store.get(*keys)).values()} == {b"2"}

    with_store(test)


def test_a_thousand_puts_are_one_write(with_store):
    async def test(store):
        revision = await store.write([Check("0", 0)], [(f"{i}", b"x") for i in range(2000)])
        page = await store.range("", limit=5000)
        assert len(page.entries) == 2000
        assert {entry.revision for entry in page.entries} == {revision}
        await store.write([Check("0", revision)], [(f"{i}", None) for i in range(2000)])
        assert not (await store.range("")).entries

    with_store(test)


def test_a_store_that_skips_a_check_is_caught_by_these_tests(with_store):
    """The twin: without its check the late write goes through."""

    async def test(store):
        old = await claim(store, 1)
        await claim(store, 2)
        await store.write([Check("owner", None)], [("offset", b"late")])
        assert (await store.get("offset"))["offset"].value == b"late"
        with pytest.raises(Conflict):
            await store.write([Check("owner", old)], [("offset", b"late")])

    with_store(test)
