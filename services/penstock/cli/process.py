"""A process that hosts services: logs, signals, and a new process after the JVM is lost."""

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
from pathlib import Path
from typing import Any, Final

from penstock.cli.errors import EXIT_INTERRUPTED
from penstock.model.errors import RetriableError
from penstock.telemetry.log_levels import parse_level
from penstock.telemetry.logs import configure_logging
from penstock.telemetry.otlp import export_telemetry

log = logging.getLogger(__name__)

MAX_JVM_LOSSES: Final = 5
"""JVMs that may be lost within `JVM_LOSS_WINDOW_S`. One that dies now and then is replaced for
ever; one that dies each time (too little memory, a broken installation) would restart unseen."""

JVM_LOSS_WINDOW_S: Final = 600.0
"""A start and the first rows take ten seconds, so five losses within this time are no accident."""

TASK_FAILURE_LOGGERS: Final = ("penstock.worker.task.supervisor",)
"""The logger whose errors are failures of tasks, for verbs that print these."""

_LOG_LEVEL: Final = "PENSTOCK_LOG_LEVEL"

_PREVIOUS: Final = "PENSTOCK_EARLIER"
"""Variable in which a process that replaces itself leaves its `PreviousProcess`, as JSON."""


class JvmLostError(Exception):
    """The JVM is gone: a hosted coroutine raises this to have its process replaced."""

    def __init__(self, carried: Mapping[str, Any] | None = None) -> None:
        """`carried` is what the next process needs to know, as JSON values."""
        super().__init__("the JVM is gone")
        self.carried = dict(carried or {})


@dataclass(frozen=True, slots=True)
class PreviousProcess:
    """What the processes before this one leave. Times are seconds of the monotonic clock, which all
    processes of a machine share.

    Attributes:
        started_at: When the first process started.
        jvm_losses: When JVMs were lost.
        carried: What the `JvmLostError` carried.
    """

    started_at: float
    jvm_losses: tuple[float, ...] = ()
    carried: Mapping[str, Any] = field(default_factory=dict)

    @property
    def exists(self) -> bool:
        """Whether this process replaced one: then the first steps of a verb are done."""
        return bool(self.jvm_losses)

    def elapsed_s(self) -> float:
        """Return the time since the first process started."""
        return time.monotonic() - self.started_at


def run_process(
    main: Callable[[PreviousProcess], Awaitable[int]],
    level: str = "WARNING",
    stopped_code: int = EXIT_INTERRUPTED,
    service: str = "node",
    printed: Collection[str] = (),
    folder: Path | None = None,
) -> int:
    """Run a coroutine that hosts services; return the exit code. SIGTERM and SIGINT cancel the
    coroutine, so that it drains.

    A process cannot start a second JVM: after a lost JVM the process replaces itself, and resumes
    from its state.

    Args:
        main: the coroutine; it returns the exit code.
        level: log level, unless `PENSTOCK_LOG_LEVEL` is set.
        stopped_code: exit code after a signal.
        service: name of the service in traces, metrics and logs.
        printed: loggers whose errors the verb prints itself.
        folder: the working folder of the coroutine and of the processes that it starts, if it is
            there; default: that of the shell.

    Raises:
        ConfigError: `config.log_level`, `telemetry.protocol`.
        RetriableError: `engine.jvm_dies`: each new JVM was lost soon.
    """
    configure_logging(
        level=parse_level(os.environ.get(_LOG_LEVEL, level), _LOG_LEVEL), printed=printed
    )
    previous = _read_previous(os.environ.pop(_PREVIOUS, ""))
    shell_folder = Path.cwd()
    if folder is not None and folder.is_dir():
        os.chdir(folder)
    try:
        with export_telemetry(service, os.environ):
            return asyncio.run(_run_until_signal(lambda: main(previous), stopped_code))
    except JvmLostError as loss:
        now = time.monotonic()
        losses = [*(at for at in previous.jvm_losses if now - at < JVM_LOSS_WINDOW_S), now]
        if len(losses) >= MAX_JVM_LOSSES:
            raise _too_many_losses() from None
        log.warning("the JVM is lost: this process replaces itself")
        os.environ[_PREVIOUS] = json.dumps([previous.started_at, losses, loss.carried])
        os.chdir(shell_folder)  # paths of the command are relative to it
        command = [sys.executable, "-m", "penstock.cli", *sys.argv[1:]]
        os.execv(sys.executable, command)  # noqa: S606 - the same program


def _read_previous(text: str) -> PreviousProcess:
    if not text:
        return PreviousProcess(time.monotonic())
    started_at, losses, carried = json.loads(text)
    return PreviousProcess(started_at, tuple(losses), carried)


def _too_many_losses() -> RetriableError:
    return RetriableError(
        "engine.jvm_dies",
        f"Spark's JVM was lost {MAX_JVM_LOSSES} times within {JVM_LOSS_WINDOW_S / 60:g} minutes",
        fix="Find what killed it (`dmesg` shows the kernel's out-of-memory killer), give the "
        "machine more memory or the JVM less (`spark.driver.memory`), and start again: no row is "
        "lost.",
    )


async def _run_until_signal(main: Callable[[], Awaitable[int]], stopped_code: int) -> int:
    loop = asyncio.get_running_loop()
    work = asyncio.ensure_future(main())
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, work.cancel)
    # objects of the start live as long as the process: the collector need not visit them again
    gc.collect()
    gc.freeze()
    try:
        return await work
    except asyncio.CancelledError:
        return stopped_code
