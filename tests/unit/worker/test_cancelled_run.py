"""A run that is cancelled ends, whatever comes in the same moment: its task group waits for it."""

import asyncio

import pytest

from penstock.worker.task.task_run import TaskRun


@pytest.mark.parametrize("due", [None, 60])
@pytest.mark.parametrize("turns", range(6))
def test_a_run_that_is_cancelled_while_an_event_comes_is_cancelled(turns, due):
    async def main():
        run = object.__new__(TaskRun)
        run._wake = asyncio.Event()
        sleeping = asyncio.create_task(run._wait_for_event(due))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        run._wake.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        asked = sleeping.cancel()
        await asyncio.wait({sleeping})
        assert sleeping.cancelled() == asked

    asyncio.run(main())
