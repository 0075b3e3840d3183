"""What a process holds: threads and open files, counted once it came to rest.

A task ends some time after its host is lost: what it holds until then is no leak.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from penstock.conformance.verdict import require

_LOOK: Final = 0.02
_RESTS_FOR: Final = 0.2
"""Seconds without a change that count as rest. One that comes later makes a case kinder, not red:
more is taken for what the process always holds."""


async def at_rest(pid: int, seconds: float) -> int:
    """Return how many threads and open files a process has once they do not change any more.

    Raises:
        RuleBrokenError: they change all the time.
    """
    clock = asyncio.get_running_loop().time
    until = clock() + seconds
    found, since = _held(pid), clock()
    while clock() - since < _RESTS_FOR:
        require(clock() < until, f"its threads and open files change for {seconds:g} s")
        await asyncio.sleep(_LOOK)
        if (now := _held(pid)) != found:
            found, since = now, clock()
    return found


async def lets_go(pid: int, most: int, seconds: float) -> int:
    """Wait until a process holds no more than `most`; return how many more it holds in the end."""
    clock = asyncio.get_running_loop().time
    until = clock() + seconds
    while True:
        more = _held(pid) - most
        if more <= 0 or clock() > until:
            return max(more, 0)
        await asyncio.sleep(_LOOK)


def _held(pid: int) -> int:
    return sum(len(list(Path(f"/proc/{pid}/{kind}").iterdir())) for kind in ("fd", "task"))
