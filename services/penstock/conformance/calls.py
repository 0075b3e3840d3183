"""Calls to a plugin, each with a deadline, and what a plugin answers when it refuses one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, Generic, TypeVar

import grpc
import grpc.aio

from penstock.api.error.v1 import diagnostic_pb2
from penstock.conformance.verdict import RuleBrokenError
from penstock.plugin.errors import DIAGNOSTIC_KEY
from penstock.rpc.status import was_reset

Request = TypeVar("Request")
Response = TypeVar("Response")

DEADLINE: Final = 20.0
"""Seconds for one answer. A plugin that takes longer hangs, as far as the kit can tell."""
_MOST_FRAMES: Final = 4096


class RefusedError(Exception):
    """The plugin ended a call with an error: its status, and its diagnostic where it sent one."""

    def __init__(self, error: grpc.aio.AioRpcError) -> None:
        self.status = error.code()
        self.diagnostic = diagnostic_pb2.Diagnostic()
        for name, value in error.trailing_metadata() or ():
            if name == DIAGNOSTIC_KEY and isinstance(value, bytes):
                self.diagnostic.ParseFromString(value)
        self.text = f"{error.details()} {self.diagnostic}"
        self.reset = was_reset(self.status, error.details()) and not self.diagnostic.code
        """Whether the HTTP/2 server of the plugin reset the call, rather than that it said no."""
        told = f"{self.status.name}: {self.diagnostic.code} {error.details()}"
        if self.reset:
            told = f"its HTTP/2 server reset the call before it was answered: {error.details()}"
        super().__init__(told[:500])

    @property
    def fenced(self) -> bool:
        """Whether it says that another owner has a newer epoch."""
        return self.diagnostic.error_class == diagnostic_pb2.ERROR_CLASS_FENCED

    @property
    def unknown(self) -> bool:
        """Whether gRPC lost the status: it wrote to a stream that had ended."""
        return "Internal error from Core" in self.text

    @property
    def lost(self) -> bool:
        """Whether the process or its socket went away, rather than that it said no."""
        return self.status is grpc.StatusCode.UNAVAILABLE and not self.diagnostic.code


async def call(method: Any, request: Any, metadata: Any, seconds: float = DEADLINE) -> Any:
    """Make a unary call.

    Raises:
        RefusedError: the plugin refused it.
        RuleBrokenError: it did not answer in time.
    """
    try:
        return await method(request, metadata=metadata, timeout=seconds)
    except grpc.aio.AioRpcError as error:
        raise _refusal(error, seconds) from None


async def collect(method: Any, request: Any, metadata: Any, seconds: float = DEADLINE) -> list[Any]:
    """Make a call that answers by a stream; return all of it.

    Raises:
        RefusedError, RuleBrokenError: as `call`.
    """
    try:
        return [one async for one in method(request, metadata=metadata, timeout=seconds)]
    except grpc.aio.AioRpcError as error:
        raise _refusal(error, seconds) from None


class Stream(Generic[Request, Response]):
    """A call with frames both ways. Made by `stream`; frames are kept in the order they came."""

    def __init__(self, opened: Any) -> None:
        self._call = opened
        self._frames: asyncio.Queue[Response | RefusedError | None] = asyncio.Queue(_MOST_FRAMES)
        self._pump = asyncio.create_task(self._listen())

    async def send(self, request: Request) -> None:
        """Send a frame. On a stream that ended it has no effect; `receive` tells the end."""
        try:
            async with asyncio.timeout(DEADLINE):
                await self._call.write(request)
        except (asyncio.InvalidStateError, grpc.aio.UsageError, grpc.aio.AioRpcError):
            return
        except TimeoutError:
            raise RuleBrokenError(f"it took no frame within {DEADLINE:g} s") from None

    async def receive(self, seconds: float = DEADLINE) -> Response | None:
        """Return the next frame, None at the end of the stream.

        Raises:
            RefusedError: it ended with an error.
            TimeoutError: nothing came.
        """
        async with asyncio.timeout(seconds):
            frame = await self._frames.get()
        if frame is None or isinstance(frame, RefusedError):
            self._frames.put_nowait(frame)  # the end stays the end
        if isinstance(frame, RefusedError):
            raise frame
        return frame

    async def done(self) -> None:
        """Say that no more frames come."""
        try:
            await self._call.done_writing()
        except (asyncio.InvalidStateError, grpc.aio.UsageError, grpc.aio.AioRpcError):
            return

    async def hang_up(self) -> None:
        """Break it off, as a lost host does."""
        self._call.cancel()
        self._pump.cancel()
        await asyncio.gather(self._pump, return_exceptions=True)

    async def _listen(self) -> None:
        end: RefusedError | None = None
        try:
            while (frame := await self._call.read()) is not grpc.aio.EOF:
                await self._frames.put(frame)
            if await self._call.code() is not grpc.StatusCode.OK:
                end = RefusedError(await _error_of(self._call))
        except grpc.aio.AioRpcError as error:
            end = RefusedError(error)
        await self._frames.put(end)


@asynccontextmanager
async def stream(method: Any, metadata: Any) -> AsyncIterator[Stream[Any, Any]]:
    """Open a call with frames both ways; it is broken off at the end."""
    opened: Stream[Any, Any] = Stream(method(metadata=metadata))
    try:
        yield opened
    finally:
        await opened.hang_up()


async def _error_of(call: Any) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(
        await call.code(),
        await call.initial_metadata(),
        await call.trailing_metadata(),
        details=await call.details(),
    )


def _refusal(error: grpc.aio.AioRpcError, seconds: float) -> Exception:
    if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        return RuleBrokenError(f"no answer within {seconds:g} s")
    return RefusedError(error)
