"""The machinery of `penstock_connector.testing`: a real server in a thread, and calls with
deadlines.
"""

from __future__ import annotations

import asyncio
import queue
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar

import grpc

from penstock.api.error.v1 import diagnostic_pb2
from penstock_connector._calls import CREDENTIAL_KEY
from penstock_connector._connector import Connector
from penstock_connector._errors import DIAGNOSTIC_KEY
from penstock_connector._frames import MESSAGE_MOST
from penstock_connector._server import PluginServer

Request = TypeVar("Request")
Response = TypeVar("Response")

CREDENTIAL: Final = "a-test"
DEADLINE: Final = 60.0
"""Seconds that anything in a test may take before it counts as hung."""


class RemoteError(Exception):
    """A call failed with the connector's diagnostic."""

    def __init__(self, error: grpc.RpcError) -> None:
        self.status: grpc.StatusCode = error.code()
        self.diagnostic = diagnostic_pb2.Diagnostic()
        trailing: Any = error.trailing_metadata() or ()
        for name, value in trailing:
            if name == DIAGNOSTIC_KEY:
                self.diagnostic.ParseFromString(value)
        super().__init__(f"{self.status.name}: {error.details()}")

    @property
    def code(self) -> str:
        """The stable code of the diagnostic."""
        return self.diagnostic.code


class Testbed:
    """Serves connectors on a unix socket in a folder of its own, for a `with` block."""

    __test__ = False  # not a test case, whatever its name says to pytest

    def __init__(self, *classes: type[Connector[Any]], credential: str | None = CREDENTIAL) -> None:
        self._classes = classes
        self._credential = credential
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="testbed", daemon=True)
        self.address = f"unix:{Path(self._folder.name) / 's'}"
        self.channel: grpc.Channel

    def __enter__(self) -> Self:
        self._thread.start()
        self._on_loop(self._start())
        self.channel = self.dial()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.channel.close()
        self._on_loop(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(DEADLINE)
        self._loop.close()
        self._folder.cleanup()

    def dial(self) -> grpc.Channel:
        """Return another channel to the server."""
        options = [
            ("grpc.max_receive_message_length", MESSAGE_MOST),
            ("grpc.max_send_message_length", MESSAGE_MOST),
            ("grpc.default_authority", "localhost"),  # as the host's: a path is none
        ]
        return grpc.insecure_channel(self.address, options)

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """What every call has to carry."""
        return () if self._credential is None else ((CREDENTIAL_KEY, self._credential),)

    def _on_loop(self, coroutine: Any) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(DEADLINE)

    async def _start(self) -> None:
        self._server = PluginServer(
            self._classes, name="test", version="0.0.0", credential=self._credential
        )
        await self._server.start(self.address)

    async def _stop(self) -> None:
        await self._server.drain(1.0)
        await self._server.stop()
        # As asyncio.run ends: a loop that is closed under a task leaves it to the collector, which
        # then speaks up in another test.
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


class Call(Generic[Request, Response]):
    """A bidirectional stream: `send` frames, `receive` answers with a deadline."""

    def __init__(self, method: Callable[..., Any], metadata: tuple[tuple[str, str], ...]) -> None:
        self._requests: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._responses: queue.SimpleQueue[Response | grpc.RpcError | None] = queue.SimpleQueue()
        self._call = method(iter(self._requests.get, None), metadata=metadata)
        self._reader = threading.Thread(target=self._read, name="call", daemon=True)
        self._reader.start()

    def send(self, request: Request) -> None:
        """Send a frame."""
        self._requests.put(request)

    def receive(self, timeout: float = DEADLINE) -> Response | None:
        """Return the next answer, None at the end of the stream.

        Raises:
            RemoteError: The call failed.
            TimeoutError: Nothing came in time.
        """
        try:
            response = self._responses.get(timeout=timeout)
        except queue.Empty:
            raise TimeoutError(f"no frame came within {timeout:g} s") from None
        if isinstance(response, grpc.RpcError):
            raise RemoteError(response) from response
        return response

    def receive_all(self) -> Iterator[Response]:
        """Return the answers up to the end of the stream."""
        while (response := self.receive()) is not None:
            yield response

    def hang_up(self) -> None:
        """Send no more."""
        self._requests.put(None)

    def cancel(self) -> None:
        """Break the stream, as a lost host would."""
        self._call.cancel()
        self._requests.put(None)
        self._reader.join(DEADLINE)

    def _read(self) -> None:
        try:
            for response in self._call:
                self._responses.put(response)
        except grpc.RpcError as error:
            self._responses.put(error)
            return
        self._responses.put(None)
