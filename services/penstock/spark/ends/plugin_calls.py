"""Calls to plugins from executors: channels made in the forked Python worker, never before the
fork, and a deadline for calls that make no progress (invariant 8).
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, Self

import grpc

from penstock.model.errors import InternalError, PenstockError, RetriableError
from penstock.rpc.channels import authority
from penstock.rpc.tls import ClientTls, from_dict


def stalled(stage: str, seconds: float) -> RetriableError:
    """Return the error of a stage that made no progress for so long."""
    return RetriableError(
        "deadline.exceeded",
        f"stage {stage} made no progress for {seconds:g} s",
        fix="See whether the plugin hangs, or what it talks to; `stall.timeout` sets the time.",
    )


class Stall:
    """Watches one call from a thread of its own, and cancels it when a wait for it takes too long.

    Only time inside `waiting()` counts. A deadline for the whole call would be wrong: a large batch
    into a slow sink takes long and is well, and so is a source whose rows a slow sink holds up.
    """

    def __init__(self, stage: str, seconds: float, cancel: Callable[[], object]) -> None:
        """`cancel` ends the call; it is called at most once, from the watching thread."""
        self.stage, self.seconds = stage, seconds
        self.expired = False
        self._cancel = cancel
        self._since: float | None = None
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name=f"stall {stage}", daemon=True)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the time until the body is left."""
        self._since = time.monotonic()
        try:
            yield
        finally:
            self._since = None

    def error(self) -> RetriableError:
        """Return what to raise for a call that was cancelled."""
        return stalled(self.stage, self.seconds)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()

    def _watch(self) -> None:
        left = self.seconds
        while not self._done.wait(left):
            since = self._since
            left = self.seconds if since is None else since + self.seconds - time.monotonic()
            if left <= 0:
                self.expired = True
                self._cancel()
                return


CREDENTIAL: Final = "penstock-credential"
"""Metadata key of the credential that a plugin got at its launch."""

PARENT: Final = "traceparent"
"""Metadata key of the trace that a call is a part of, as the W3C names it."""

LARGEST_MESSAGE: Final = 64 << 20
"""Largest message taken, bytes: what the SDK sends at most. Larger batches come in chunks."""

_CONNECT_MS: Final = 10_000
"""Milliseconds that a connection may take. There is no other plugin to turn to, and a process that
is gone refuses at once; one on a machine that is busy only needs its time."""

_OPTIONS: Final = [
    ("grpc.max_receive_message_length", LARGEST_MESSAGE),
    ("grpc.max_send_message_length", LARGEST_MESSAGE),
    # proxies of the environment are for the way out, not for plugins
    ("grpc.enable_http_proxy", 0),
    # a plugin that was started anew is found within this, not within gRPC's up to two minutes
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.min_reconnect_backoff_ms", _CONNECT_MS),  # not a backoff, whatever it is called
]


def channel(place: Mapping[str, Any]) -> grpc.Channel:
    """Return this process's channel to the plugin of an end."""
    return _channel(place["address"], from_dict(place.get("tls")))


@functools.lru_cache(maxsize=64)
def _channel(address: str, tls: ClientTls | None) -> grpc.Channel:
    if tls is None:
        return grpc.insecure_channel(address, options=[*_OPTIONS, *authority(address)])
    return grpc.secure_channel(address, tls.credentials(), options=[*_OPTIONS, *tls.options()])


def metadata(place: Mapping[str, Any], trace: str = "") -> tuple[tuple[str, str | bytes], ...]:
    """Return what shows a plugin that its own host calls; one elsewhere has its own ways. `trace`
    is that of the micro-batch, if it has one.
    """
    shown = ((CREDENTIAL, place["credential"]),) if place["credential"] else ()
    return (*shown, (PARENT, trace)) if trace else shown


def violation(what: str, message: str) -> PenstockError:
    """Return the error of a peer that broke the protocol."""
    return InternalError(
        f"plugin.protocol.{what}", message, fix="Report this to the author of the plugin."
    )
