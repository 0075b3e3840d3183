"""The cache is bounded, and any key may be removed at any time."""

from __future__ import annotations

from penstock.offset.view import LruCache, Revisioned


def test_the_key_used_longest_ago_goes_first():
    memory: LruCache[int] = LruCache(2)
    memory.put("a", Revisioned(1, 1))
    memory.put("b", Revisioned(2, 2))
    assert memory.get("a")
    memory.put("c", Revisioned(3, 3))
    assert len(memory) == 2
    assert memory.get("b") is None
    assert memory.get("a") == Revisioned(1, 1)


def test_removing_a_key_that_is_not_cached_is_not_an_error():
    memory: LruCache[int] = LruCache(2)
    memory.put("a", Revisioned(1, 1))
    memory.remove(["a", "b"])
    assert memory.get("a") is None
