"""gRPC calls to a plugin, each with a timeout, and the error of a refused call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, Generic, TypeVar

import grpc
import grpc.aio

from penstock.api.error.v1 import diagnostic_pb2
from penstock.plugin.errors import DIAGNOSTIC_KEY
from penstock.rpc.status import was_reset
from penstock_kit.conformance.results import RuleBrokenError

Request = TypeVar("Request")
Response = TypeVar("Response")

TIMEOUT_S: Final = 20.0
"""For one answer. The kit treats a plugin that takes longer as hanging."""
_MAX_FRAMES: Final = 4096

UNKNOWN_FRAME: Final = b"\xc2\x3e\x03abc"
"""A frame with field 1000, which no version of the protocol has."""


class RefusedError(Exception):
    """The plugin ended a call with an error: its status, and its diagnostic if it sent one."""

    def __init__(self, error: grpc.aio.AioRpcError) -> None:
        self.status = error.code()
        self.diagnostic = diagnostic_pb2.Diagnostic()
        for name, value in error.trailing_metadata() or ():
            if name == DIAGNOSTIC_KEY and isinstance(value, bytes):
                self.diagnostic.ParseFromString(value)
        self.full_text = f"{error.details()} {self.diagnostic}"
        self.was_reset = was_reset(self.status, error.details()) and not self.diagnostic.code
        """Whether the HTTP/2 server of the plugin reset the call, instead of an answer."""
        text = f"{self.status.name}: {self.diagnostic.code} {error.details()}"
        if self.was_reset:
            text = f"its HTTP/2 server reset the call before it was answered: {error.details()}"
        super().__init__(text[:500])

    @property
    def is_fenced(self) -> bool:
        """Whether the error is that of an older epoch."""
        return self.diagnostic.error_class == diagnostic_pb2.ERROR_CLASS_FENCED

    @property
    def lost_status(self) -> bool:
        """Whether gRPC lost the status, because it wrote to a stream that had ended."""
        return "Internal error from Core" in self.full_text

    @property
    def is_disconnect(self) -> bool:
        """Whether the process or its socket is gone, instead of an answer."""
        return self.status is grpc.StatusCode.UNAVAILABLE and not self.diagnostic.code


async def call(method: Any, request: Any, metadata: Any, seconds: float = TIMEOUT_S) -> Any:
    """Make a unary call.

    Raises:
        RefusedError: the plugin ended it with an error.
        RuleBrokenError: no answer came in time.
    """
    try:
        return await method(request, metadata=metadata, timeout=seconds)
    except grpc.aio.AioRpcError as error:
        raise _refusal(error, seconds) from None


async def collect(
    method: Any, request: Any, metadata: Any, seconds: float = TIMEOUT_S
) -> list[Any]:
    """Make a call with a streamed answer; return all messages.

    Raises:
        RefusedError, RuleBrokenError: as `call`.
    """
    try:
        return [one async for one in method(request, metadata=metadata, timeout=seconds)]
    except grpc.aio.AioRpcError as error:
        raise _refusal(error, seconds) from None


class Stream(Generic[Request, Response]):
    """A call with frames in both directions. Create it by `open_stream`."""

    def __init__(self, opened: Any) -> None:
        self._call = opened
        self._frames: asyncio.Queue[Response | RefusedError | None] = asyncio.Queue(_MAX_FRAMES)
        self._receiver = asyncio.create_task(self._receive_all())

    async def send(self, request: Request) -> None:
        """Send a frame. On an ended stream this has no effect; `receive` returns the end."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await self._call.write(request)
        except (asyncio.InvalidStateError, grpc.aio.UsageError, grpc.aio.AioRpcError):
            return
        except TimeoutError:
            raise RuleBrokenError(f"it accepted no frame within {TIMEOUT_S:g} s") from None

    async def receive(self, seconds: float = TIMEOUT_S) -> Response | None:
        """Return the next frame; None at the end of the stream.

        Raises:
            RefusedError: the stream ended with an error.
            TimeoutError: no frame came in time.
        """
        async with asyncio.timeout(seconds):
            frame = await self._frames.get()
        if frame is None or isinstance(frame, RefusedError):
            self._frames.put_nowait(frame)  # the next call returns the end, too
        if isinstance(frame, RefusedError):
            raise frame
        return frame

    async def done_writing(self) -> None:
        """End the frames of this side."""
        try:
            await self._call.done_writing()
        except (asyncio.InvalidStateError, grpc.aio.UsageError, grpc.aio.AioRpcError):
            return

    async def cancel(self) -> None:
        """Cancel the call, as a lost host does."""
        self._call.cancel()
        self._receiver.cancel()
        await asyncio.gather(self._receiver, return_exceptions=True)

    async def _receive_all(self) -> None:
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
async def open_stream(method: Any, metadata: Any) -> AsyncIterator[Stream[Any, Any]]:
    """Open a call with frames in both directions; it is cancelled at the end of the block."""
    opened: Stream[Any, Any] = Stream(method(metadata=metadata))
    try:
        yield opened
    finally:
        await opened.cancel()


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
