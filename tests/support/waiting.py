"""Waiting inside an event loop: for a condition, with a deadline that names it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], object], what: str, seconds: float = 60) -> None:
    """Wait until a condition holds; AssertionError naming `what` when it does not in time."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while not condition():
        assert loop.time() < end, f"never: {what}"
        await asyncio.sleep(0.003)
