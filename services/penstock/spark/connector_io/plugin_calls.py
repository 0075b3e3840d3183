"""Calls to plugins from executors: channels, call metadata, and a timeout for calls that make no
progress (invariant 8).

Channels are opened in the forked Python worker, never before the fork.
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
from penstock.rpc.channels import ClientTls, authority_options, client_tls_from_dict

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
]


def plugin_channel(spec: Mapping[str, Any]) -> grpc.Channel:
    """Return this process's channel to the plugin at a spec's `address`, with its `tls`."""
    return _channel(spec["address"], client_tls_from_dict(spec.get("tls")))


@functools.lru_cache(maxsize=64)
def _channel(address: str, tls: ClientTls | None) -> grpc.Channel:
    if tls is None:
        return grpc.insecure_channel(address, options=[*_OPTIONS, *authority_options(address)])
    return grpc.secure_channel(address, tls.credentials(), options=[*_OPTIONS, *tls.options()])


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
    """Cancels a call when one wait for it takes too long. Watches it from a thread of its own.

    Only time inside `waiting()` counts. A deadline for the whole call would be wrong: a large batch
    into a slow sink takes long without a fault, and so does a source that a slow sink holds up.
    """

    def __init__(self, stage: str, timeout_s: float, cancel: Callable[[], object]) -> None:
        """`cancel` ends the call; it is called at most once, from the watching thread."""
        self.stage, self.timeout_s = stage, timeout_s
        self.expired = False
        self._cancel = cancel
        self._waiting_since: float | None = None
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name=f"stall {stage}", daemon=True)

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
        left_s = self.timeout_s
        while not self._done.wait(left_s):
            since = self._waiting_since
            left_s = self.timeout_s if since is None else since + self.timeout_s - time.monotonic()
            if left_s <= 0:
                self.expired = True
                self._cancel()
                return
