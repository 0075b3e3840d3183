"""A control stream with a plugin: frames out with a deadline, frames in, one reason for its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar, cast

import grpc.aio
from google.protobuf.duration_pb2 import Duration

from penstock.model.errors import PenstockError, RetriableError
from penstock.plugin import errors
from penstock.plugin.process.connection import Link

_DEFAULT: Final = 30.0
"""For a stream that names none."""
_LONGEST: Final = 300.0
"""A plugin cannot opt out of being noticed when it hangs (invariant 8)."""
_MISSED: Final = 2.0
"""Heartbeats that may be missing. One is too strict for a machine that is busy."""


def silence(every: Duration) -> float:
    """Return the seconds without a frame after which a plugin is taken for hung."""
    return min(every.ToTimedelta().total_seconds() or _DEFAULT, _LONGEST) * _MISSED


def missed(who: str, seconds: float) -> PenstockError:
    """Return the error of a plugin that was silent for so long."""
    return RetriableError(
        "plugin.heartbeat_missed",
        f"plugin {who} sent nothing for {seconds:g} s; it promised a heartbeat twice as often "
        "(R19)",
        fix="It is started anew; if it repeats, see in its log what it hangs in.",
    )


_Request = TypeVar("_Request")
_Response = TypeVar("_Response")

_DEATH_GRACE: Final = 1.0
"""Seconds that a stream may outlive its process, to deliver the frames that are in hand. A longer
one delays the restart when something else holds the socket open."""


class ControlStream(Generic[_Request, _Response]):
    """One bidirectional call. Ends once, with `failure` when it did not end as it should."""

    def __init__(self, link: Link, method: Callable[..., Any], name: str) -> None:
        self.name = name
        self.failure: PenstockError | None = None
        self._link = link
        self._call: grpc.aio.StreamStreamCall[_Request, _Response] = method(metadata=link.metadata)
        link.idleness.begin()
        self._call.add_done_callback(link.idleness.end)
        self._writing = asyncio.Lock()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        link.exited.add_done_callback(self._process_ended)

    async def send(self, request: _Request, stage: str, seconds: float) -> None:
        """Send a frame; raises the stream's failure when it is lost."""
        if self.failure:
            raise self.failure
        try:
            async with asyncio.timeout(seconds), self._writing:
                await self._call.write(request)
        except TimeoutError:
            raise self.fail(errors.deadline(stage, seconds)) from None
        except grpc.aio.AioRpcError as error:
            raise self.fail(await self._link.failure(error, stage)) from None
        except asyncio.InvalidStateError:
            raise self.fail(await self._lost(stage)) from None
        except asyncio.CancelledError:
            if _was_cancelled():
                raise
            raise self.fail(await self._lost(stage)) from None

    async def receive(self, stage: str, seconds: float | None = None) -> _Response | None:
        """Return the next frame, None at a proper end.

        Raises:
            TimeoutError: nothing came in `seconds`; the call is over.
            PenstockError: the stream is lost.
        """
        timeout = asyncio.timeout(seconds)
        try:
            async with timeout:
                frame = await self._call.read()
        except grpc.aio.AioRpcError as error:
            raise self.fail(await self._link.failure(error, stage)) from None
        except asyncio.CancelledError:
            if _was_cancelled():
                raise
            raise self.fail(await self._lost(stage)) from None
        return None if frame is grpc.aio.EOF else cast("_Response", frame)

    def fail(self, error: PenstockError) -> PenstockError:
        """End the call for a reason; return the first reason there was."""
        if self.failure is None:
            self.failure = error
        self._call.cancel()
        return self.failure

    def fail_after(self, key: str, seconds: float, error: PenstockError) -> None:
        """Fail in `seconds` unless `forget` is called with this key before."""
        self.forget(key)
        loop = asyncio.get_running_loop()
        self._timers[key] = loop.call_later(seconds, self.fail, error)

    def forget(self, key: str) -> None:
        """Let a timer go."""
        if timer := self._timers.pop(key, None):
            timer.cancel()

    async def finish(self) -> None:
        """Say that nothing more will be sent."""
        if not self._call.done():
            async with self._writing:
                try:
                    await self._call.done_writing()
                except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
                    return  # it is over already

    def end(self) -> None:
        """Let go of the call at once. Idempotent."""
        for key in list(self._timers):
            self.forget(key)
        self._link.exited.remove_done_callback(self._process_ended)
        self._call.cancel()

    async def _lost(self, stage: str) -> PenstockError:
        """Return the reason of a call that was over before it was used."""
        if self.failure:
            return self.failure
        if death := self._link.death():
            return death
        if self._call.done() and not self._call.cancelled():
            try:
                await self._call.read()
            except grpc.aio.AioRpcError as error:
                return await self._link.failure(error, stage)
            except asyncio.CancelledError:
                if _was_cancelled():
                    raise
        return errors.stream_ended(f"stage {stage}: the stream has ended")

    def _process_ended(self, _: asyncio.Future[int]) -> None:
        if death := self._link.death():
            self.fail_after("death", _DEATH_GRACE, death)


def _was_cancelled() -> bool:
    """Whether this task was cancelled; a call that was cancelled raises the same exception."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
