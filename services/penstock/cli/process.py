"""The life of a process that hosts services: logs, signals, and a new start when the JVM is
gone.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.cli.errors import INTERRUPTED
from penstock.model.errors import RetriableError
from penstock.telemetry import set_up
from penstock.telemetry.levels import level_named
from penstock.telemetry.otlp import exported

log = logging.getLogger(__name__)

MOST_LOSSES: Final = 5
"""JVMs that may be lost within `LOSS_WINDOW`. One that dies now and then is replaced for ever; one
that dies each time (too little memory, a broken installation) would go on in circles unseen."""

LOSS_WINDOW: Final = 600.0
"""Seconds. A start and the first rows take ten, so five losses within it are no accident."""

ENDED_TASKS: Final = ("penstock.worker.task.supervisor",)
"""The logger whose errors are the ends of tasks, for verbs that print these."""

_LEVEL: Final = "PENSTOCK_LOG_LEVEL"

_EARLIER: Final = "PENSTOCK_EARLIER"
"""Variable by which a process that replaces itself tells the next one what was, as JSON."""


class JvmLostError(Exception):
    """Raised by a hosted coroutine: the JVM is gone, and the process must start anew."""

    def __init__(self, carried: Mapping[str, Any] | None = None) -> None:
        """`carried` is what the next process should know, as JSON has it."""
        super().__init__("the JVM is gone")
        self.carried = dict(carried or {})


@dataclass(frozen=True, slots=True)
class Earlier:
    """What was before this process replaced itself. `began`: when the first one started; `losses`:
    when JVMs were lost. Both in seconds of the monotonic clock, which all processes share.
    """

    began: float
    losses: tuple[float, ...] = ()
    carried: Mapping[str, Any] = field(default_factory=dict)

    @property
    def resumed(self) -> bool:
        """Tell whether this process replaced an earlier one: what is done first was done."""
        return bool(self.losses)

    def seconds(self) -> float:
        """Return the seconds since the first process started."""
        return time.monotonic() - self.began


def hosted(
    main: Callable[[Earlier], Awaitable[int]],
    level: str = "WARNING",
    ended: int = INTERRUPTED,
    service: str = "node",
    printed: Collection[str] = (),
) -> int:
    """Run a coroutine that hosts services; SIGTERM and SIGINT cancel it, so that it drains.

    `level` is that of the log, where `PENSTOCK_LOG_LEVEL` names none; `ended` the exit code of one
    that was told to end, and did; `service` what traces, metrics and logs are of; `printed` loggers
    whose errors the verb prints itself.

    A JVM cannot be started again inside a process that had one: the process replaces itself, and
    resumes from its state.

    Raises:
        ConfigError: `config.log_level`, `telemetry.protocol`.
        RetriableError: `engine.jvm_dies`: each new JVM was lost soon.
    """
    set_up(level=level_named(os.environ.get(_LEVEL, level), _LEVEL), printed=printed)
    earlier = _earlier(os.environ.pop(_EARLIER, ""))
    try:
        with exported(service, os.environ):
            return asyncio.run(_guarded(lambda: main(earlier), ended))
    except JvmLostError as loss:
        now = time.monotonic()
        losses = [*(at for at in earlier.losses if now - at < LOSS_WINDOW), now]
        if len(losses) >= MOST_LOSSES:
            raise _dies() from None
        log.warning("starting anew after the loss of the JVM")
        os.environ[_EARLIER] = json.dumps([earlier.began, losses, loss.carried])
        os.execv(sys.executable, [sys.executable, "-m", "penstock.cli", *sys.argv[1:]])  # noqa: S606 - ourselves


def _earlier(text: str) -> Earlier:
    if not text:
        return Earlier(time.monotonic())
    began, losses, carried = json.loads(text)
    return Earlier(began, tuple(losses), carried)


def _dies() -> RetriableError:
    return RetriableError(
        "engine.jvm_dies",
        f"Spark's JVM was lost {MOST_LOSSES} times within {LOSS_WINDOW / 60:g} minutes",
        fix="See what killed it (`dmesg` tells of the kernel's out-of-memory killer), give the "
        "machine more memory or the JVM less (`spark.driver.memory`), and start again: nothing is "
        "lost.",
    )


async def _guarded(main: Callable[[], Awaitable[int]], ended: int) -> int:
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
        return ended
