"""Inspections of a task's rows are bounded, and never delay the task."""

from __future__ import annotations

import asyncio

import pytest

from penstock.model.errors import ConfigError, RetriableError
from penstock.model.inspection import MAX_INSPECTED_ROWS, InspectedRow, InspectRules, RowStage
from penstock.worker.task.live_rows import (
    MAX_INSPECTIONS,
    MAX_PENDING_ROWS,
    MAX_SAMPLE_ROWS,
    SAMPLE_INTERVAL_S,
    Inspections,
)
from penstock_kit.testing.clock import FakeClock


def rows(count: int, text: str = "{}") -> list[InspectedRow]:
    return [InspectedRow("t", "p", str(n), None, text) for n in range(count)]


def words_of(inspection) -> list:
    """Return everything that the inspection yields until it ends."""

    async def main():
        return [word async for word in inspection.read()]

    return asyncio.run(main())


def test_without_an_inspection_no_sample_is_requested():
    inspections = Inspections()
    assert inspections.sample_requests() == {}
    inspections.record_batch(100, 100)
    inspections.add_sample(RowStage.READ, rows(3))


def test_a_sample_of_the_inspected_stages_is_requested_at_an_interval():
    clock = FakeClock()
    inspections = Inspections(clock)
    with (
        inspections.open(InspectRules(RowStage.READ, rows=3)),
        inspections.open(InspectRules(RowStage.READ, rows=5, row_bytes=10)),
        inspections.open(InspectRules(RowStage.TRANSFORMED, rows=1000)),
    ):
        wanted = inspections.sample_requests()
        assert {stage: (one.rows, one.row_bytes) for stage, one in wanted.items()} == {
            RowStage.READ: (5, 4096),
            RowStage.TRANSFORMED: (MAX_SAMPLE_ROWS, 4096),
        }
        assert inspections.sample_requests() == {}
        clock.advance(SAMPLE_INTERVAL_S)
        assert inspections.sample_requests() == wanted
    clock.advance(SAMPLE_INTERVAL_S)
    assert inspections.sample_requests() == {}


def test_behind_a_transform_only_what_is_known_to_have_passed_counts_as_missed():
    inspections = Inspections()
    inspections.set_transforms(["keep", "late"])
    with inspections.open(InspectRules("keep", rows=3)) as inspection:
        inspections.add_sample("late", rows(3))
        inspections.add_sample(RowStage.TRANSFORMED, rows(3))
        inspections.add_sample("keep", rows(1))
        inspections.record_batch(10, 4)
        inspections.add_sample("keep", rows(2))
        (word,) = words_of(inspection)
    assert (len(word.rows), word.missed) == (3, 3)


def test_a_stage_that_the_chain_does_not_have_is_refused_when_the_chain_is_known():
    inspections = Inspections()
    with (
        inspections.open(InspectRules("kep", rows=2)) as wrong,
        inspections.open(InspectRules("read", rows=1)) as right,
    ):
        inspections.set_transforms(["keep", "read"])
        inspections.add_sample("read", rows(1))
        assert len(words_of(right)[0].rows) == 1
        with pytest.raises(ConfigError, match=r"worker\.no_stage.*'kep'") as caught:
            words_of(wrong)
    told = caught.value.diagnostic
    assert told.suggestion == "keep"
    assert "read, keep, transforms.read, transformed" in told.fix
    with (
        pytest.raises(ConfigError, match=r"worker\.no_stage"),
        inspections.open(InspectRules("other")),
    ):
        pass
    inspections.set_transforms(["other"])
    with inspections.open(InspectRules("other")), inspections.open(InspectRules(RowStage.READ)):
        assert inspections.sample_requests().keys() == {"other", RowStage.READ}


def test_an_inspection_ends_after_its_rows_and_truncates_long_ones():
    inspections = Inspections()
    with inspections.open(InspectRules(RowStage.READ, rows=3, row_bytes=4)) as inspection:
        inspections.add_sample(RowStage.TRANSFORMED, rows(3))
        inspections.add_sample(RowStage.READ, rows(2, '{"a":"ä"}'))
        inspections.record_batch(10, 5)
        inspections.add_sample(RowStage.READ, rows(2))
        inspections.record_batch(10, 5)
        (word,) = words_of(inspection)
    assert [(row.json, row.cut) for row in word.rows] == [('{"a"', True)] * 2 + [("{}", False)]
    assert word.missed == 17


def test_an_inspection_ends_after_its_time():
    inspections = Inspections()
    with inspections.open(InspectRules(seconds=0.01)) as inspection:
        assert words_of(inspection) == []


def test_a_slow_reader_misses_rows_and_gets_their_number():
    """Invariant 12: what waits for it is bounded."""
    clock = FakeClock()
    inspections = Inspections(clock)
    with inspections.open(InspectRules(RowStage.READ, rows=1000)) as inspection:
        for _ in range(2 * MAX_PENDING_ROWS // MAX_SAMPLE_ROWS):
            clock.advance(SAMPLE_INTERVAL_S)
            wanted = inspections.sample_requests().get(RowStage.READ)
            inspections.add_sample(RowStage.READ, rows(wanted.rows if wanted else 0))
            inspections.record_batch(100, 0)
        assert inspections.sample_requests() == {}  # no sample is taken for nobody

        async def first():
            return await anext(inspection.read())

        word = asyncio.run(first())
        assert len(word.rows) == MAX_PENDING_ROWS
        assert word.missed == 100 * 2 * MAX_PENDING_ROWS // MAX_SAMPLE_ROWS - MAX_PENDING_ROWS
        clock.advance(SAMPLE_INTERVAL_S)
        assert inspections.sample_requests()[RowStage.READ].rows == MAX_SAMPLE_ROWS


def test_an_inspection_of_a_task_that_ends_raises_after_the_last_rows():
    inspections = Inspections()
    with inspections.open(InspectRules(RowStage.READ)) as inspection:
        inspections.add_sample(RowStage.READ, rows(1))
        inspections.close()

        async def main():
            words = inspection.read()
            assert len((await anext(words)).rows) == 1
            with pytest.raises(RetriableError, match=r"worker\.task_left"):
                await anext(words)

        asyncio.run(main())


def test_concurrent_inspections_and_their_limits_are_bounded():
    inspections = Inspections()
    opened = [inspections.open(InspectRules(rows=10**9)) for _ in range(MAX_INSPECTIONS)]
    found = [one.__enter__() for one in opened]
    assert found[0].rules.rows == MAX_INSPECTED_ROWS
    with (
        pytest.raises(RetriableError, match=r"worker\.too_many_looks"),
        inspections.open(InspectRules()),
    ):
        pass
    for one in opened:
        one.__exit__(None, None, None)
    with inspections.open(InspectRules(RowStage.UNSPECIFIED, 0, 0, 0)) as inspection:
        assert inspection.rules == InspectRules()
