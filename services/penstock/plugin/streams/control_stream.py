"""A control stream with a plugin: frames with deadlines, and one error at its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar, cast

import grpc.aio
from google.protobuf.duration_pb2 import Duration

from penstock.model.errors import PenstockError, RetriableError
from penstock.plugin import errors
from penstock.plugin.process.connection import Connection

_DEFAULT_HEARTBEAT_S: Final = 30.0
"""For a stream that names no interval."""

_MAX_HEARTBEAT_S: Final = 300.0
"""A plugin cannot choose an interval so long that its hang is not detected (invariant 8)."""

_MISSED_HEARTBEATS: Final = 2.0
"""Intervals without a frame. One is too strict for a busy machine."""

_EXIT_GRACE_S: Final = 1.0
"""Time that a stream may outlive its process, to deliver the frames that were received. A longer
time delays the restart when a descendant holds the socket open."""

_Request = TypeVar("_Request")
_Response = TypeVar("_Response")


class ControlStream(Generic[_Request, _Response]):
    """One bidirectional call. It ends once; `failure` is the error when it did not end properly."""

    def __init__(self, connection: Connection, method: Callable[..., Any]) -> None:
        self.failure: PenstockError | None = None
        self._connection = connection
        self._call: grpc.aio.StreamStreamCall[_Request, _Response] = method(
            metadata=connection.metadata
        )
        connection.idle_timer.begin_use()
        self._call.add_done_callback(connection.idle_timer.end_use)
        self._write_lock = asyncio.Lock()
        self._exit_timer: asyncio.TimerHandle | None = None
        connection.exited.add_done_callback(self._handle_exit)

    async def send(self, request: _Request, stage: str, timeout_s: float) -> None:
        """Send a frame; raise the failure of the stream when it is lost."""
        if self.failure:
            raise self.failure
        try:
            async with asyncio.timeout(timeout_s), self._write_lock:
                await self._call.write(request)
        except TimeoutError:
            raise self.fail(errors.deadline_exceeded(stage, timeout_s)) from None
        except grpc.aio.AioRpcError as error:
            raise self.fail(await self._connection.call_error(error, stage)) from None
        except asyncio.InvalidStateError:
            raise self.fail(await self._find_failure(stage)) from None
        except asyncio.CancelledError:
            if _is_task_cancelled():
                raise
            raise self.fail(await self._find_failure(stage)) from None

    async def receive(self, stage: str, timeout_s: float | None = None) -> _Response | None:
        """Return the next frame; None at a proper end.

        Raises:
            TimeoutError: no frame came in `timeout_s`; the call has ended.
            PenstockError: the stream is lost.
        """
        timeout = asyncio.timeout(timeout_s)
        try:
            async with timeout:
                frame = await self._call.read()
        except grpc.aio.AioRpcError as error:
            raise self.fail(await self._connection.call_error(error, stage)) from None
        except asyncio.CancelledError:
            if _is_task_cancelled():
                raise
            raise self.fail(await self._find_failure(stage)) from None
        return None if frame is grpc.aio.EOF else cast("_Response", frame)

    def fail(self, error: PenstockError) -> PenstockError:
        """End the call with an error; return the first error that it got."""
        if self.failure is None:
            self.failure = error
        self._call.cancel()
        return self.failure

    async def finish_sending(self) -> None:
        """Close the sending direction."""
        if not self._call.done():
            async with self._write_lock:
                try:
                    await self._call.done_writing()
                except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
                    return  # the call has ended already

    def cancel(self) -> None:
        """Cancel the call. Idempotent."""
        if self._exit_timer:
            self._exit_timer.cancel()
        self._connection.exited.remove_done_callback(self._handle_exit)
        self._call.cancel()

    async def _find_failure(self, stage: str) -> PenstockError:
        """Return why the call ended before this use of it."""
        if self.failure:
            return self.failure
        if exit_error := self._connection.exit_error():
            return exit_error
        if self._call.done() and not self._call.cancelled():
            try:
                await self._call.read()
            except grpc.aio.AioRpcError as error:
                return await self._connection.call_error(error, stage)
            except asyncio.CancelledError:
                if _is_task_cancelled():
                    raise
        return errors.stream_ended(f"stage {stage}: the stream has ended")

    def _handle_exit(self, _: asyncio.Future[int]) -> None:
        if exit_error := self._connection.exit_error():
            loop = asyncio.get_running_loop()
            self._exit_timer = loop.call_later(_EXIT_GRACE_S, self.fail, exit_error)


def silence_limit(heartbeat: Duration) -> float:
    """Return the seconds without a frame after which the plugin is considered hung."""
    interval_s = heartbeat.ToTimedelta().total_seconds() or _DEFAULT_HEARTBEAT_S
    return min(interval_s, _MAX_HEARTBEAT_S) * _MISSED_HEARTBEATS


def heartbeat_missed(name: str, seconds: float) -> PenstockError:
    """Return the error for a plugin that sent no frame for so long."""
    return RetriableError(
        "plugin.heartbeat_missed",
        f"plugin {name} sent nothing for {seconds:g} s, twice the heartbeat interval that it "
        "promised (R19)",
        fix="The task is run again. If it repeats, the log of the plugin may show where it hangs.",
    )


def _is_task_cancelled() -> bool:
    """Return whether this task was cancelled: a cancelled call raises the same exception."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
