"""Tasks that end together leave nothing behind, and hide no error of the one that counts."""

from __future__ import annotations

import asyncio

import pytest

from penstock.aio import (
    cancel_and_wait,
    run_together,
    run_until_first,
    run_until_set,
    wait_for_first,
)


class Work:
    """Waits for ever; records that it began and that it cleaned up."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.began, self.ended, self.failure = asyncio.Event(), False, failure

    async def run(self) -> None:
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            self.ended = True
            if self.failure:
                raise self.failure


async def answer() -> str:
    return "done"


async def fail() -> None:
    raise ValueError("failed")


def test_cancelled_tasks_have_cleaned_up_and_their_errors_are_dropped():
    async def main():
        works = [Work(), Work(ValueError("in the end"))]
        tasks = [asyncio.create_task(one.run()) for one in works]
        for one in works:
            await one.began.wait()
        await cancel_and_wait(*tasks, asyncio.create_task(answer()))
        assert all(one.ended for one in works)
        await cancel_and_wait()

    asyncio.run(main())


def test_the_first_task_that_ends_ends_the_wait_and_the_others_go_on():
    async def main():
        work = asyncio.create_task(Work().run())
        failing = asyncio.create_task(fail())
        await wait_for_first(work, failing)
        assert isinstance(failing.exception(), ValueError)
        await wait_for_first(work, timeout_s=0)
        assert not work.done()
        await cancel_and_wait(work)

    asyncio.run(main())


def test_tasks_of_a_block_have_ended_after_it_also_when_it_raises():
    async def main():
        work = Work()
        tasks: list[asyncio.Task[None]] = []

        async def block() -> None:
            async with run_together(work.run(), fail()) as both:
                tasks.extend(both)
                await wait_for_first(both[1])
                await work.began.wait()
                raise ValueError("block")

        with pytest.raises(ValueError, match="block"):
            await block()
        assert work.ended
        assert tasks[0].cancelled()
        assert isinstance(tasks[1].exception(), ValueError)

    asyncio.run(main())


def test_the_first_of_several_ends_all_and_its_error_is_raised():
    async def main():
        work = Work()
        await run_until_first(work.run(), answer())
        assert work.ended or not work.began.is_set()
        with pytest.raises(ValueError, match="failed"):
            await run_until_first(Work().run(), fail())

    asyncio.run(main())


def test_work_is_done_until_an_event_is_set():
    async def main():
        stop, work = asyncio.Event(), Work()
        assert await run_until_set(stop, answer()) == "done"
        with pytest.raises(ValueError, match="failed"):
            await run_until_set(stop, fail())
        waiting = asyncio.create_task(run_until_set(stop, work.run()))
        await work.began.wait()
        stop.set()
        assert await waiting is None
        assert work.ended

    asyncio.run(main())


def test_work_that_is_cancelled_from_outside_has_ended_before_the_caller_goes_on():
    async def main():
        work = Work()
        waiting = asyncio.create_task(run_until_set(asyncio.Event(), work.run()))
        await work.began.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert work.ended

    asyncio.run(main())
