"""The life of a process that hosts services: logs, signals, and a new start when the JVM is
gone.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable

from penstock.cli.errors import INTERRUPTED
from penstock.telemetry import set_up

log = logging.getLogger(__name__)

JVM_LOST = -1
"""Result of a hosted coroutine that asks for a new start of the process."""

_RESUMED = "PENSTOCK_RESUMED"
"""Variable that tells a process that it goes on with what it did before it replaced itself."""


def hosted(main: Callable[[], Awaitable[int]], level: str = "WARNING") -> int:
    """Run a coroutine that hosts services; SIGTERM and SIGINT cancel it, so that it drains.

    `level` is that of the log, where `PENSTOCK_LOG_LEVEL` names none.

    A JVM cannot be started again inside a process that had one: the process replaces itself, and
    resumes from its state.
    """
    set_up(level=os.environ.get("PENSTOCK_LOG_LEVEL", level))
    code = asyncio.run(_guarded(main))
    if code == JVM_LOST:
        log.warning("starting anew after the loss of the JVM")
        again = [sys.executable, "-m", "penstock.cli", *sys.argv[1:]]
        os.environ[_RESUMED] = "1"
        os.execv(sys.executable, again)  # noqa: S606 - ourselves
    return code


def resumed() -> bool:
    """Tell, once, whether this process replaced itself: what is done first was done before."""
    return os.environ.pop(_RESUMED, None) is not None


async def _guarded(main: Callable[[], Awaitable[int]]) -> int:
    loop = asyncio.get_running_loop()
    work = asyncio.ensure_future(main())
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, work.cancel)
    # what start-up made lives as long as the process: the collector need not look at it again
    gc.collect()
    gc.freeze()
    try:
        return await work
    except asyncio.CancelledError:
        return INTERRUPTED
