"""How much memory a plugin has, and its end when that is too much.

Looked at from outside, because no limit of the kernel fits: RLIMIT_AS and RLIMIT_DATA count what a
runtime reserves (Go, V8 and Arrow reserve gigabytes that they never touch), and a memory cgroup
needs rights that a worker seldom has. Counted is what a process alone keeps in memory: not its
libraries and mapped files, which the kernel may drop.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from penstock.model.errors import PenstockError, RetriableError

_FASTEST: Final = 2 << 30
"""Bytes a second by which a process can grow: a core writes about this to fresh pages. The next
look is due when the rest of the limit can be full; a larger figure costs CPU, a smaller one lets a
plugin grow further beyond its limit."""
_SOONEST: Final = 0.02
_LATEST: Final = 1.0
_MOST_PROCESSES: Final = 1_000
_PROC: Final = Path("/proc")
_KEPT: Final = re.compile(rb"^(?:RssAnon|RssShmem|VmSwap):\s*(\d+) kB", re.MULTILINE)


def used(pid: int) -> int:
    """Return the bytes that a process and all below it keep."""
    return sum(_kept(one) for one in _family(pid))


def next_look(limit: int, now: int) -> float:
    """Return after how many seconds the memory is looked at again."""
    return min(max((limit - now) / _FASTEST, _SOONEST), _LATEST)


async def watch(pid: int, limit: int, exceeded: Callable[[int], None]) -> None:
    """Call `exceeded`, once, with what is kept when it is more than the limit."""
    now = used(pid)
    while now <= limit:
        await asyncio.sleep(next_look(limit, now))
        now = used(pid)
    exceeded(now)


def too_much(who: str, limit: int, now: int) -> PenstockError:
    """Return the error of a plugin that was ended for its memory."""
    return RetriableError(
        "plugin.memory_exceeded",
        f"plugin {who} was ended: it had {now >> 20} MiB of memory, {limit >> 20} MiB are allowed",
        config_path="plugin.memory.max",
        fix="Let the connector hold less (`credit.bytes`, fewer tasks), or raise "
        "`plugin.memory.max` of the worker.",
    )


def _family(pid: int) -> Iterator[int]:
    """Yield a process and its descendants; of a group that forks without end, the first."""
    todo = [pid]
    for _ in range(_MOST_PROCESSES):
        if not todo:
            return
        one = todo.pop()
        yield one
        todo += _children(one)


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):  # it ended meanwhile
        for thread in (_PROC / str(pid) / "task").iterdir():
            with suppress(OSError):  # or this thread of it
                found += map(int, (thread / "children").read_text().split())
    return found


def _kept(pid: int) -> int:
    try:
        status = (_PROC / str(pid) / "status").read_bytes()
    except OSError:
        return 0
    return sum(int(kib) << 10 for kib in _KEPT.findall(status))
