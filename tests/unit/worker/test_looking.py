"""Looks at a task's rows: bounded, and never in the way of them."""

from __future__ import annotations

import asyncio

import pytest

from penstock.model.errors import ConfigError, RetriableError
from penstock.model.live_rows import MOST_ROWS, LookedRow, LookRules, RowStage
from penstock.testing.clock import FakeClock
from penstock.worker.task.live_rows import AT_ONCE, EVERY, MOST_LOOKS, WAITING, Looks


def rows(count: int, text: str = "{}") -> list[LookedRow]:
    return [LookedRow("t", "p", str(n), None, text) for n in range(count)]


def words_of(look) -> list:
    """All that there is to see now, and whether it has ended."""

    async def main():
        return [word async for word in look.words()]

    return asyncio.run(main())


def test_while_nobody_looks_nothing_is_wanted():
    looks = Looks()
    assert looks.wanted() == {}
    looks.moved(100, 100)
    looks.show(RowStage.READ, rows(3))


def test_a_sample_is_wanted_at_an_interval_for_the_stages_that_are_looked_at():
    clock = FakeClock()
    looks = Looks(clock)
    with (
        looks.open(LookRules(RowStage.READ, rows=3)),
        looks.open(LookRules(RowStage.READ, rows=5, row_bytes=10)),
        looks.open(LookRules(RowStage.TRANSFORMED, rows=1000)),
    ):
        wanted = looks.wanted()
        assert {stage: (one.rows, one.row_bytes) for stage, one in wanted.items()} == {
            RowStage.READ: (5, 4096),
            RowStage.TRANSFORMED: (AT_ONCE, 4096),
        }
        assert looks.wanted() == {}
        clock.advance(EVERY)
        assert looks.wanted() == wanted
    clock.advance(EVERY)
    assert looks.wanted() == {}


def test_behind_a_transform_only_what_is_known_to_have_passed_counts_as_missed():
    looks = Looks()
    looks.begin(["keep", "late"])
    with looks.open(LookRules("keep", rows=3)) as look:
        looks.show("late", rows(3))
        looks.show(RowStage.TRANSFORMED, rows(3))
        looks.show("keep", rows(1))
        looks.moved(10, 4)
        looks.show("keep", rows(2))
        (word,) = words_of(look)
    assert (len(word.rows), word.missed) == (3, 3)


def test_a_stage_that_the_chain_does_not_have_is_refused_when_the_chain_is_known():
    looks = Looks()
    with (
        looks.open(LookRules("kep", rows=2)) as wrong,
        looks.open(LookRules("read", rows=1)) as right,
    ):
        looks.begin(["keep", "read"])
        looks.show("read", rows(1))
        assert len(words_of(right)[0].rows) == 1
        with pytest.raises(ConfigError, match=r"worker\.no_stage.*'kep'") as caught:
            words_of(wrong)
    told = caught.value.diagnostic
    assert told.suggestion == "keep"
    assert "read, keep, transforms.read, transformed" in told.fix
    with pytest.raises(ConfigError, match=r"worker\.no_stage"), looks.open(LookRules("other")):
        pass
    looks.begin(["other"])
    with looks.open(LookRules("other")), looks.open(LookRules(RowStage.READ)):
        assert looks.wanted().keys() == {"other", RowStage.READ}


def test_a_look_ends_after_its_rows_and_cuts_what_is_long():
    looks = Looks()
    with looks.open(LookRules(RowStage.READ, rows=3, row_bytes=4)) as look:
        looks.show(RowStage.TRANSFORMED, rows(3))
        looks.show(RowStage.READ, rows(2, '{"a":"ä"}'))
        looks.moved(10, 5)
        looks.show(RowStage.READ, rows(2))
        looks.moved(10, 5)
        (word,) = words_of(look)
    assert [(row.json, row.cut) for row in word.rows] == [('{"a"', True)] * 2 + [("{}", False)]
    assert word.missed == 17


def test_a_look_ends_after_its_time():
    looks = Looks()
    with looks.open(LookRules(seconds=0.01)) as look:
        assert words_of(look) == []


def test_a_reader_that_is_slow_misses_rows_and_is_told_how_many():
    """Invariant 12: what waits for it is bounded."""
    clock = FakeClock()
    looks = Looks(clock)
    with looks.open(LookRules(RowStage.READ, rows=1000)) as look:
        for _ in range(2 * WAITING // AT_ONCE):
            clock.advance(EVERY)
            wanted = looks.wanted().get(RowStage.READ)
            looks.show(RowStage.READ, rows(wanted.rows if wanted else 0))
            looks.moved(100, 0)
        assert looks.wanted() == {}  # no sample is taken for nobody

        async def first():
            return await anext(look.words())

        word = asyncio.run(first())
        assert len(word.rows) == WAITING
        assert word.missed == 100 * 2 * WAITING // AT_ONCE - WAITING
        clock.advance(EVERY)
        assert looks.wanted()[RowStage.READ].rows == AT_ONCE


def test_a_look_at_a_task_that_ends_says_so_after_the_last_rows():
    looks = Looks()
    with looks.open(LookRules(RowStage.READ)) as look:
        looks.show(RowStage.READ, rows(1))
        looks.end()

        async def main():
            words = look.words()
            assert len((await anext(words)).rows) == 1
            with pytest.raises(RetriableError, match=r"worker\.task_left"):
                await anext(words)

        asyncio.run(main())


def test_few_may_look_at_once_and_what_is_asked_for_is_bounded():
    looks = Looks()
    opened = [looks.open(LookRules(rows=10**9)) for _ in range(MOST_LOOKS)]
    found = [one.__enter__() for one in opened]
    assert found[0].rules.rows == MOST_ROWS
    with pytest.raises(RetriableError, match=r"worker\.too_many_looks"), looks.open(LookRules()):
        pass
    for one in opened:
        one.__exit__(None, None, None)
    with looks.open(LookRules(RowStage.UNSPECIFIED, 0, 0, 0)) as look:
        assert look.rules == LookRules()
