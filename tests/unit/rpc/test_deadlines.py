"""A deadline names its stage."""

from __future__ import annotations

import asyncio

import pytest

from penstock.model.errors import RetriableError
from penstock.rpc.deadlines import deadline


def test_what_takes_too_long_is_ended_and_named():
    async def main():
        with pytest.raises(RetriableError, match=r"deadline\.exceeded.*offset\.commit.*0\.01 s"):
            async with deadline("offset.commit", 0.01):
                await asyncio.Event().wait()

    asyncio.run(main())


def test_what_is_in_time_is_left_alone():
    async def main():
        async with deadline("offset.commit", 10):
            return 1

    assert asyncio.run(main()) == 1


def test_a_timeout_of_the_work_itself_is_not_taken_for_ours():
    async def main():
        async with deadline("offset.commit", 10):
            raise TimeoutError("theirs")

    with pytest.raises(TimeoutError, match="theirs"):
        asyncio.run(main())


def test_a_cancellation_from_outside_stays_one():
    async def main():
        async def work():
            async with deadline("offset.commit", 10):
                await asyncio.Event().wait()

        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
