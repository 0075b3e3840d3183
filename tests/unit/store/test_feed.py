"""Recent changes are remembered within bounds, merged, and never told wrongly."""

from __future__ import annotations

import asyncio

from penstock.store.feed import MAX_CHANGE_KEYS, Feed
from penstock.store.port import Change


def take(changes, count=1):
    async def main():
        async with asyncio.timeout(60):
            return [await anext(changes) for _ in range(count)]

    return asyncio.run(main())


def test_changes_in_between_are_merged_into_one():
    feed = Feed(10)
    changes = feed.watch("", 10)
    for revision in range(11, 20):
        feed.publish(revision, ["a", f"k{revision % 2}"])
    assert take(changes) == [Change(19, ("a", "k0", "k1"))]


def test_a_watcher_behind_the_memory_lists_again():
    feed = Feed(10, max_changes=3)
    for revision in range(11, 16):
        feed.publish(revision, ["a"])
    assert take(feed.watch("", 11)) == [Change(15)]
    assert take(feed.watch("", 12)) == [Change(15, ("a",))]


def test_a_flood_of_keys_is_told_as_list_again():
    feed = Feed(0)
    feed.publish(1, ["x"])
    changes = feed.watch("", 1)
    feed.publish(2, [str(i) for i in range(MAX_CHANGE_KEYS + 1)])
    assert take(changes) == [Change(2)]


def test_a_revision_of_the_future_lists_again():
    """The state was restored from a backup: what the watcher saw is not what is there."""
    assert take(Feed(5).watch("", 99)) == [Change(5)]
