"""Calls to plugins from executors: channels, call metadata, and a timeout for calls that make no
progress (invariant 8).

Channels are opened in the forked Python worker, never before the fork.
"""

from __future__ import annotations

import base64
import functools
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, Self

import grpc
from grpc.experimental import ChannelOptions

from penstock.api.record.v1 import record_pb2
from penstock.model.errors import InternalError, PenstockError, RetriableError
from penstock.rpc.channels import ClientTls, authority_options, client_tls_from_dict
from penstock_values.memory_files import can_read

log = logging.getLogger(__name__)

MAX_MESSAGE_BYTES: Final = 64 << 20
"""Largest message that is accepted, and that the SDK sends. Larger batches come in chunks."""

_CREDENTIAL_KEY: Final = "penstock-credential"
"""Metadata key of the credential that the plugin got at its launch."""

_TRACE_KEY: Final = "traceparent"
"""Metadata key of the trace that a call belongs to, named by the W3C."""

_CONNECT_TIMEOUT_MS: Final = 10_000
"""Limit of one connection attempt. There is no other plugin to turn to. A process that has ended
refuses at once; one on a busy machine only needs the time."""

_OPTIONS: Final = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    # proxies of the environment are for the internet, not for plugins
    ("grpc.enable_http_proxy", 0),
    # a restarted plugin is found within this time, not within gRPC's up to two minutes
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.min_reconnect_backoff_ms", _CONNECT_TIMEOUT_MS),  # not a backoff, despite its name
    # a fetch of a small batch takes half of the CPU without a thread of its own
    (ChannelOptions.SingleThreadedUnaryStream, 1),
]


def plugin_channel(spec: Mapping[str, Any]) -> grpc.Channel:
    """Return this process's channel to the plugin at a spec's `address`, with its `tls`."""
    return _channel(spec["address"], client_tls_from_dict(spec.get("tls")))


@functools.lru_cache(maxsize=64)
def _channel(address: str, tls: ClientTls | None) -> grpc.Channel:
    if tls is None:
        return grpc.insecure_channel(address, options=[*_OPTIONS, *authority_options(address)])
    return grpc.secure_channel(address, tls.credentials(), options=[*_OPTIONS, *tls.options()])


def shares_memory(spec: Mapping[str, Any]) -> bool:
    """Return whether batches may pass in memory files between this process and the plugin: both
    have to be on one machine, in one container, of one user.
    """
    return "memory_file" in spec and _can_read(spec["memory_file"])


@functools.lru_cache(maxsize=256)
def _can_read(memory_file: str) -> bool:
    return can_read(record_pb2.MemoryFile.FromString(base64.b64decode(memory_file)))


def call_metadata(spec: Mapping[str, Any], trace: str = "") -> tuple[tuple[str, str | bytes], ...]:
    """Return the metadata of a call: the credential, by which a local plugin knows its own host,
    and the trace of the micro-batch. A remote plugin has no credential.
    """
    credential = ((_CREDENTIAL_KEY, spec["credential"]),) if spec["credential"] else ()
    return (*credential, (_TRACE_KEY, trace)) if trace else credential


def protocol_error(rule: str, message: str) -> PenstockError:
    """Return the error `plugin.protocol.<rule>` of a plugin that broke the protocol."""
    return InternalError(
        f"plugin.protocol.{rule}", message, fix="Report this to the author of the plugin."
    )


def stall_error(stage: str, timeout_s: float) -> RetriableError:
    """Return the error of a stage that made no progress within its timeout."""
    return RetriableError(
        "deadline.exceeded",
        f"stage {stage} made no progress for {timeout_s:g} s",
        fix="Check whether the plugin hangs, or the system that it talks to; `stall.timeout` sets "
        "the time.",
    )


class StallTimer:
    """Cancels a call when one wait for it takes too long. The watch of the process looks after it.

    Only time inside `waiting()` counts. A deadline for the whole call would be wrong: a large batch
    into a slow sink takes long without a fault, and so does a source that a slow sink holds up.
    """

    def __init__(self, stage: str, timeout_s: float, cancel: Callable[[], object]) -> None:
        """`cancel` ends the call; it is called at most once, by the thread of the watch."""
        self.stage, self.timeout_s = stage, timeout_s
        self.expired = False
        self._cancel = cancel
        self._waiting_since: float | None = None
        self._watch: _StallWatch | None = None

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the time until the body is left."""
        self._waiting_since = time.monotonic()
        try:
            yield
        finally:
            self._waiting_since = None

    def error(self) -> RetriableError:
        """Return what to raise for a call that was cancelled."""
        return stall_error(self.stage, self.timeout_s)

    def left_s(self, now: float) -> float:
        """Return the seconds until its wait is too long, and those of a new wait while none is."""
        since = self._waiting_since
        return self.timeout_s if since is None else since + self.timeout_s - now

    def expire(self) -> None:
        """Cancel the call."""
        self.expired = True
        self._cancel()

    def __enter__(self) -> Self:
        self._watch = _watch_of_process()
        self._watch.add(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._watch is not None:
            self._watch.remove(self)


class _StallWatch:
    """The thread that expires the timers of a process. It sleeps until the first of them may be
    due; so a call that ends in time, as nearly all do, costs no switch of threads.
    """

    def __init__(self) -> None:
        self._timers: set[StallTimer] = set()
        self._changed = threading.Condition()
        self._sleeps_until = float("-inf")
        threading.Thread(target=self._watch, name="stalled calls", daemon=True).start()

    def add(self, timer: StallTimer) -> None:
        with self._changed:
            self._timers.add(timer)
            if time.monotonic() + timer.timeout_s < self._sleeps_until:
                self._changed.notify()

    def remove(self, timer: StallTimer) -> None:
        with self._changed:
            self._timers.discard(timer)

    def _watch(self) -> None:
        while True:
            for timer in self._wait_for_expired():
                try:
                    timer.expire()
                except Exception:  # the calls of all other tasks are watched here, too
                    log.exception("a stalled call could not be cancelled: %s", timer.stage)

    def _wait_for_expired(self) -> list[StallTimer]:
        with self._changed:
            now = time.monotonic()
            timers = list(self._timers)  # a generator that is collected meanwhile removes its own
            expired = [timer for timer in timers if timer.left_s(now) <= 0]
            self._timers.difference_update(expired)
            left_s = min((timer.left_s(now) for timer in timers), default=_LONGEST_SLEEP_S)
            if not expired:
                self._sleeps_until = now + left_s
                self._changed.wait(left_s)
            return expired


_LONGEST_SLEEP_S: Final = 3600.0


_watches: Final[dict[int, _StallWatch]] = {}
_creating: Final = threading.Lock()


def _watch_of_process() -> _StallWatch:
    """Return the watch of this process: one that was forked has no threads of its parent."""
    with _creating:
        watch = _watches.get(os.getpid())
        if watch is None:
            watch = _watches[os.getpid()] = _StallWatch()
        return watch
