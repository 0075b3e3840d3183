"""What is remembered is bounded, and may be forgotten at any time."""

from __future__ import annotations

from penstock.offset.cache import Known, Memory


def test_the_key_used_longest_ago_goes_first():
    memory: Memory[int] = Memory(2)
    memory.put("a", Known(1, 1))
    memory.put("b", Known(2, 2))
    assert memory.get("a")
    memory.put("c", Known(3, 3))
    assert len(memory) == 2
    assert memory.get("b") is None
    assert memory.get("a") == Known(1, 1)


def test_forgetting_what_is_not_known_is_no_error():
    memory: Memory[int] = Memory(2)
    memory.put("a", Known(1, 1))
    memory.forget(["a", "b"])
    assert memory.get("a") is None
