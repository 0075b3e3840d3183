"""Runs previews in a process of their own, beside the engine that moves rows.

A preview evaluates untested expressions of any user who may configure a connector. In the engine
that moves rows, one of them could use up the memory or the slots of all connectors. So the first
preview starts a second process with a JVM of its own (some seconds), which ends after a minute
without previews. A preview that crashes it harms only other previews.

The child is started with `python -m penstock.worker.admin.preview_server`. It reads its settings
as one line of JSON from standard input, so that no secret is on its command line, and ends when
that input ends: with the worker, however that ends.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import select
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from penstock.client import WorkerClient
from penstock.model.connector import Connector
from penstock.model.errors import PenstockError, RetriableError
from penstock.model.inspection import PreviewRequest, PreviewResult
from penstock.telemetry.redaction import Secret
from penstock.worker.process_settings import WorkerSettings

log = logging.getLogger(__name__)


IDLE_S: Final = 60.0
"""Time without a preview after which the process ends. A user who tries a transform repeats the
preview within seconds; keeping the JVM longer wastes about 400 MB.
"""

START_TIMEOUT_S: Final = 50.0
"""Seconds for the start: less than those of the call that waits for it. It takes five on a machine
with nothing else to do."""

_END_TIMEOUT_S: Final = 5.0
READY: Final = b"ready\n"
"""What the child writes when it serves."""

_CHILD: Final = "penstock.worker.admin.preview_server"


class PreviewProcess:
    """Previews in a process that is started on demand. Owned by the worker: `close`."""

    def __init__(
        self,
        settings: WorkerSettings,
        runtime: Path,
        check: Callable[[Connector], Awaitable[object]],
    ) -> None:
        """Take the settings of the worker, and a folder for sockets and scratch files. `check`
        raises for a connector that does not justify the start of a process.
        """
        self._settings, self._runtime, self._check = settings, runtime, check
        self._lock = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._loss: int | None = None  # a pipe that is readable as soon as the JVM is lost
        self._client: WorkerClient | None = None
        self._running_previews = 0
        self._idle_timer: asyncio.TimerHandle | None = None
        self._closing: set[asyncio.Task[None]] = set()

    async def preview(self, connector: Connector, request: PreviewRequest) -> PreviewResult:
        """Return what the chain makes of the rows, as `EnginePreviews.preview`.

        Raises:
            ConfigError: the connector is not valid.
            RetriableError: `preview.not_started`, `preview.lost`.
        """
        if not self._is_running():
            await self._check(connector)
        self._running_previews += 1
        self._cancel_idle_timer()
        try:
            client = await self._client_of_process()
            process = self._process
            try:
                return await client.preview_rows(connector, request)
            except PenstockError:
                if process is not None and process.returncode is not None:
                    raise _lost(process.returncode) from None
                raise
        finally:
            self._running_previews -= 1
            self._end_when_idle()

    async def close(self) -> None:
        """End the process. Idempotent."""
        self._cancel_idle_timer()
        await asyncio.gather(*self._closing, return_exceptions=True)
        async with self._lock:
            await self._end()

    def _is_running(self) -> bool:
        # a process announces its loss, then exits, then asyncio sets `returncode`: a preview
        # in between would be lost, too
        return (
            self._process is not None
            and self._process.returncode is None
            and not _has_ended(self._process.pid)
            and not _is_readable(self._loss)
        )

    async def _client_of_process(self) -> WorkerClient:
        async with self._lock:
            if self._client is None or not self._is_running():
                await self._end()
                try:
                    async with asyncio.timeout(START_TIMEOUT_S):
                        self._client = await self._start()
                except TimeoutError:
                    await self._end()
                    why = f"it was not ready within {START_TIMEOUT_S:g} s"
                    raise _not_started(why) from None
            return self._client

    async def _start(self) -> WorkerClient:
        address = f"unix:{self._runtime / 'preview'}"
        settings_line: dict[str, Any] = {
            "values": {key: _plain(value) for key, value in self._settings.values.items()},
            "extra": dict(self._settings.extra),
            "topics_dir": self._settings.topics_dir,
            "runtime": str(self._runtime / "previews"),
            "address": address,
        }
        self._loss, loss = os.pipe()
        settings_line["loss"] = loss
        try:
            self._process = process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", _CHILD),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                start_new_session=True,
                pass_fds=(loss,),
            )
        finally:
            os.close(loss)
        assert process.stdin is not None  # noqa: S101 - both are pipes
        assert process.stdout is not None  # noqa: S101
        with suppress(ConnectionError):  # it ended already: the next line reports it
            process.stdin.write(json.dumps(settings_line).encode() + b"\n")
            await process.stdin.drain()
        if await process.stdout.readline() != READY:
            raise _not_started(f"it ended with {await process.wait()}")
        log.info("previews run in process %d", process.pid)
        return WorkerClient(address)

    def _cancel_idle_timer(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None

    def _end_when_idle(self) -> None:
        if not self._running_previews:
            self._cancel_idle_timer()
            self._idle_timer = asyncio.get_running_loop().call_later(IDLE_S, self._schedule_end)

    def _schedule_end(self) -> None:
        closing = asyncio.ensure_future(self._end_if_idle())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def _end_if_idle(self) -> None:
        async with self._lock:
            if not self._running_previews:
                await self._end()

    async def _end(self) -> None:
        """End the process and everything that it started: it leads a group."""
        client, self._client = self._client, None
        process, self._process = self._process, None
        if self._loss is not None:
            os.close(self._loss)
            self._loss = None
        if client is not None:
            await client.close()
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_END_TIMEOUT_S):
                await process.wait()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def _has_ended(pid: int) -> bool:
    """Return whether a child process has ended, without reaping it."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # it is reaped
        return True


def _is_readable(descriptor: int | None) -> bool:
    """Return whether a pipe has a byte, or has lost its writers; False without a pipe."""
    return descriptor is not None and bool(select.select([descriptor], [], [], 0)[0])


def _plain(value: Any) -> Any:
    """Return the value of a key for JSON. The child needs the secrets, too."""
    return value.reveal() if isinstance(value, Secret) else value


def _not_started(why: str) -> RetriableError:
    return RetriableError(
        "preview.not_started",
        f"stage preview.start: the preview process did not start: {why}",
        fix="Check the log and the free memory of the worker, then retry.",
    )


def _lost(code: int) -> RetriableError:
    return RetriableError(
        "preview.lost",
        f"the preview process exited with code {code} during this preview",
        fix="Check the transforms for an expression that expands one row into many or computes for "
        "minutes. Running connectors are not affected.",
    )
