"""Tasks of asyncio that end together: cancelled and awaited, or ended by the first of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

_T = TypeVar("_T")


async def cancel_and_wait(*tasks: asyncio.Future[Any]) -> None:
    """Cancel tasks, and wait until all have ended, however they end."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def wait_for_first(*tasks: asyncio.Future[Any], timeout_s: float | None = None) -> None:
    """Wait until one of several tasks has ended, however it ends, or the time is over. None is
    cancelled.
    """
    await asyncio.wait(tasks, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)


@asynccontextmanager
async def run_together(
    *work: Coroutine[Any, Any, _T],
) -> AsyncIterator[tuple[asyncio.Task[_T], ...]]:
    """Run coroutines as tasks during the block. Those that have not ended are cancelled at its end,
    which waits for them. Errors of a task are those of its result: the block reads them.
    """
    tasks = tuple(asyncio.create_task(one) for one in work)
    try:
        yield tasks
    finally:
        await cancel_and_wait(*tasks)


async def run_until_first(*work: Coroutine[Any, Any, object]) -> None:
    """Run coroutines until one has ended, raise its error, and cancel the others."""
    async with run_together(*work) as tasks:
        await wait_for_first(*tasks)
        for task in tasks:
            if task.done():
                task.result()


async def run_until_set(event: asyncio.Event, work: Coroutine[Any, Any, _T]) -> _T | None:
    """Return the result of work. When the event is set first, the work is cancelled, and None is
    returned after its end.
    """
    async with run_together(work) as (working,), run_together(event.wait()) as (stopped,):
        await wait_for_first(working, stopped)
        return working.result() if working.done() else None
