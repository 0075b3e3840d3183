"""The client of etcd: calls in plain values, watches that resume, and lists that follow changes.

A watch is a hint (invariant 7): events may come late, but none is skipped silently. A caller that
needs state lists it, and lists it again when a hint comes; `Etcd.snapshots` does exactly this.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

import grpc
import grpc.aio

from penstock.api.etcd.v3 import etcd_pb2 as pb
from penstock.etcd import calls, operations
from penstock.etcd.calls import MIN_RETRY_DELAY_S, AttemptFailedError, Calls
from penstock.etcd.errors import (
    CompactedError,
    FailureKind,
    check_version,
    classify_failure,
    unreachable,
)
from penstock.etcd.operations import KeyValue, RangeResult, TxnResult
from penstock.etcd.settings import EtcdSettings
from penstock.model.backoff import Backoff
from penstock.model.errors import ConfigError, PenstockError, RetriableError

LIST_INTERVAL_S: Final = 10.0
"""Time after which a list is read again without a hint. A lost hint costs this much; a shorter time
loads etcd with lists that change nothing."""

_LIST_RETRY_DELAY_S: Final = 0.5
"""Time until a list is read again when etcd did not answer."""

_PAGE: Final = 1000
"""Keys that are read at once: a round trip then takes a small part of the time of its values."""

_CONNECT_ROUND_S: Final = 2.0
"""Time of one round of attempts at the start; after each round it logs what it waits for."""

_MIN_ROUND_S: Final = 0.1
"""Shortest round, and pause between rounds: a shorter round ends before any answer."""

_MAX_REOPEN_DELAY_S: Final = 2.0
"""Delay before a watch is opened again, doubling. A watch has no deadline, because its caller waits
for a hint forever. With a longer delay the caller still waits when etcd is available again."""

_Stream = grpc.aio.StreamStreamCall[Any, Any]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Events:
    """Keys that changed up to `revision`, in order; the value of a removed key is None."""

    revision: int
    changes: tuple[tuple[str, bytes | None], ...]


class Etcd:
    """A client of one etcd cluster, from `connect` to `close`. Belongs to one event loop."""

    def __init__(self, settings: EtcdSettings) -> None:
        """Connects at the first call."""
        self.settings = settings
        self._calls = Calls(settings)

    @staticmethod
    async def connect(settings: EtcdSettings) -> Etcd:
        """Return a client that has received an answer. Waits for members that are still starting.

        Raises:
            PenstockError: `etcd.unreachable` after `connect_timeout_s`, or at once the error of a
                refusal: `etcd.credentials_refused`, `etcd.permission_denied`, …; or
                `etcd.unsupported_version`.
        """
        client = Etcd(settings)
        try:
            await client._wait_for_answer()
            check_version(client.endpoint, await client.version())
        except BaseException:
            await client.close()
            raise
        return client

    @property
    def prefix(self) -> str:
        """The prefix of all keys of the Penstock cluster."""
        return self.settings.prefix

    @property
    def revision(self) -> int:
        """The newest revision of all responses so far."""
        return self._calls.revision

    @property
    def endpoint(self) -> str:
        """The current member."""
        return self._calls.channel.endpoint

    async def version(self) -> str:
        """Return the version of the current member."""
        response = await self._calls.call(calls.STATUS, pb.StatusRequest(), "read the version")
        return str(response.version)

    async def get(self, key: str) -> RangeResult:
        """Read one key."""
        request = pb.RangeRequest(key=key.encode())
        response = await self._calls.call(calls.RANGE, request, f"get {key}")
        return operations.range_from_proto(response, response.header.revision)

    async def range(
        self, prefix: str, after: str = "", limit: int = 0, revision: int = 0
    ) -> RangeResult:
        """Read the keys under a prefix that come after a key, now or at a revision.

        Raises:
            CompactedError: etcd no longer has that revision.
        """
        first = max(prefix.encode(), after.encode() + b"\0" if after else b"")
        end = operations.prefix_end(prefix)
        if first >= end:  # etcd would read to the end of all keys
            return RangeResult((), revision or self.revision)
        request = pb.RangeRequest(key=first, range_end=end, limit=limit, revision=revision)
        response = await self._calls.call(calls.RANGE, request, f"range {prefix}")
        return operations.range_from_proto(response, revision or response.header.revision)

    async def pages(
        self, prefix: str, after: str = "", limit: int = 0
    ) -> AsyncGenerator[RangeResult, None]:
        """Read the keys under a prefix page by page, all at the revision of the first page.

        Args:
            prefix: What the keys begin with.
            after: Only keys behind this one.
            limit: Keys in total; 0: all.

        Raises:
            CompactedError: etcd no longer has that revision: begin again.
        """
        revision, size, remaining = 0, _PAGE, limit or sys.maxsize
        while True:
            try:
                page = await self.range(prefix, after, min(size, remaining), revision)
            except ConfigError as error:
                if error.code != "etcd.answer_too_large" or size == 1:
                    raise
                size = max(1, size // 8)  # the values are large: read fewer at once
                continue
            yield page
            revision, remaining = page.revision, remaining - len(page.entries)
            if not page.has_more or not remaining:
                return
            after = page.entries[-1].key

    async def txn(
        self,
        conditions: Sequence[pb.Compare],
        then: Sequence[pb.RequestOp],
        otherwise: Sequence[pb.RequestOp] = (),
        *,
        stage: str,
        repeat: bool = False,
    ) -> TxnResult:
        """Make all operations of `then` if every condition holds, else all of `otherwise`.

        `repeat`: the transaction may happen twice, so it is repeated when no answer came.

        Raises:
            OutcomeUnknownError: no answer came, and the transaction may not happen twice.
        """
        request = pb.TxnRequest(compare=conditions, success=then, failure=otherwise)
        response = await self._calls.call(calls.TXN, request, stage, repeat=repeat)
        return operations.txn_from_proto(response)

    async def grant_lease(self, ttl_s: int) -> tuple[int, int]:
        """Grant a lease; return its id and the seconds for which it was granted.

        When the answer is lost, the lease has no owner that keeps it alive, and so it ends.
        """
        request = pb.LeaseGrantRequest(ttl=ttl_s)
        response = await self._calls.call(calls.GRANT, request, "grant a lease")
        return response.id, response.ttl

    async def revoke_lease(self, lease: int) -> None:
        """End a lease and remove its keys; a lease that has ended is no error."""
        try:
            request = pb.LeaseRevokeRequest(id=lease)
            await self._calls.call(calls.REVOKE, request, "revoke a lease")
        except PenstockError as error:
            if error.code != "etcd.lease_lost":
                raise

    async def keep_alive(self, lease: int, timeout_s: float) -> int:
        """Renew a lease, in one attempt; return its seconds, 0 when it has ended.

        Raises:
            PenstockError: no answer, or a refusal.
        """
        try:
            async with self._calls.translate_errors():
                call = self._calls.channel.stream(calls.KEEP_ALIVE)(
                    iter((pb.LeaseKeepAliveRequest(id=lease),)),
                    timeout=timeout_s,
                    metadata=await self._calls.metadata(),
                )
                response = await call.read()
                call.cancel()
                if not isinstance(response, pb.LeaseKeepAliveResponse):  # the end of the stream
                    raise AttemptFailedError(
                        FailureKind.UNKNOWN, await call.code(), await call.details() or ""
                    )
        except AttemptFailedError as failed:
            if failed.kind is FailureKind.REFUSED:
                raise self._calls.refusal_error(failed, "keep a lease") from None
            endpoints = (self.endpoint,)
            raise unreachable(endpoints, timeout_s, "keep a lease", str(failed)) from None
        self._calls.record_header(response)
        return response.ttl

    def watch(
        self, prefix: str, after: int, *, exact: bool = False
    ) -> AsyncGenerator[Events, None]:
        """Iterate over changes under a prefix after a revision, across reconnects.

        With `exact`, `prefix` is one key. Ends when the client is closed.

        Raises:
            CompactedError: etcd no longer has the events after that revision, or the revision
                never existed: list again.
        """
        return _watch(self._calls, prefix, after, exact=exact)

    async def snapshots(
        self, prefix: str, *, exact: bool = False, interval_s: float = LIST_INTERVAL_S
    ) -> AsyncIterator[RangeResult]:
        """Yield the keys under a prefix, at one revision, and again whenever they may have changed.

        With `exact`, `prefix` is one key. While etcd is unavailable, nothing is yielded: the last
        snapshot stays the newest. Ends when the client is closed.

        Raises:
            PenstockError: etcd refuses: credentials, permissions.
        """
        while True:
            try:
                snapshot = await self._list(prefix, exact=exact)
            except RetriableError as error:
                _log.warning("cannot list %s: %s", prefix, error.diagnostic.message)
                await asyncio.sleep(_LIST_RETRY_DELAY_S)
                continue
            except PenstockError as error:
                if error.code == "etcd.closed":
                    return
                raise
            yield snapshot
            await self._wait_for_hint(prefix, snapshot.revision, interval_s, exact=exact)

    async def close(self) -> None:
        """Cancel every call and watch. Idempotent."""
        await self._calls.close()

    async def _list(self, prefix: str, *, exact: bool) -> RangeResult:
        """Read all keys under a prefix at one revision, page by page."""
        if exact:
            return await self.get(prefix)
        entries: list[KeyValue] = []
        revision = 0
        async for page in self.pages(prefix):
            entries += page.entries
            revision = page.revision
        return RangeResult(tuple(entries), revision)

    async def _wait_for_hint(
        self, prefix: str, after: int, interval_s: float, *, exact: bool
    ) -> None:
        """Wait for an event, at most `interval_s`."""
        try:
            watch = self.watch(prefix, after, exact=exact)
            async with asyncio.timeout(interval_s), aclosing(watch) as events:
                await anext(events, None)
        except TimeoutError:
            return
        except CompactedError:
            return

    async def _wait_for_answer(self) -> None:
        """Wait for a first answer; log meanwhile what is awaited."""
        settings, loop = self.settings, asyncio.get_running_loop()
        key = f"{self.prefix}cluster"
        end = loop.time() + settings.connect_timeout_s
        while True:
            round_s = min(_CONNECT_ROUND_S, end - loop.time())
            try:
                request = pb.RangeRequest(key=key.encode(), keys_only=True)
                await self._calls.call(calls.RANGE, request, "connect", timeout_s=round_s)
            except PenstockError as error:
                if error.code != "etcd.unreachable":
                    raise
                remaining_s = end - loop.time()
                if remaining_s < _MIN_ROUND_S:
                    why = error.diagnostic.message.rpartition(" s: ")[2]
                    raise unreachable(
                        settings.endpoints, settings.connect_timeout_s, "connect", why
                    ) from None
                _log.warning("%s; trying for %.1f s more", error.diagnostic.message, remaining_s)
                await asyncio.sleep(_MIN_ROUND_S)
            else:
                return


async def _watch(
    client_calls: Calls, prefix: str, after: int, *, exact: bool
) -> AsyncGenerator[Events, None]:
    """Iterate over events; after each loss, open the watch again after the last event."""
    end = b"" if exact else operations.prefix_end(prefix)
    position, backoff = after, Backoff(MIN_RETRY_DELAY_S, _MAX_REOPEN_DELAY_S)
    while not client_calls.is_closed():
        stream: _Stream | None = None
        try:
            async with client_calls.translate_errors():
                stream = await _open_watch(client_calls, prefix.encode(), end, position)
            backoff.reset()
            while True:
                async with client_calls.translate_errors():
                    response = await _next_response(stream)
                if response.events:
                    events = _events_from_proto(response)
                    yield events
                    position = events.revision - 1 if response.fragment else events.revision
                client_calls.record_header(response)
        except AttemptFailedError as failed:
            if client_calls.is_closed():
                return
            if failed.kind is FailureKind.REFUSED:
                raise client_calls.refusal_error(failed, f"watch {prefix}") from None
            _log.debug("the watch of %s continues at another member: %s", prefix, failed)
        finally:
            if stream is not None:
                stream.cancel()
        await asyncio.sleep(backoff.delay_s)
        backoff.advance()


async def _open_watch(client_calls: Calls, key: bytes, end: bytes, position: int) -> _Stream:
    """Return a stream whose watch has begun."""
    create = pb.WatchCreateRequest(
        key=key, range_end=end, start_revision=position + 1, fragment=True
    )
    stream = client_calls.channel.stream(calls.WATCH)(metadata=await client_calls.metadata())
    try:
        async with asyncio.timeout(client_calls.settings.call_timeout_s):
            await stream.write(pb.WatchRequest(create_request=create))
            response = await _next_response(stream)
    except TimeoutError:
        stream.cancel()
        raise AttemptFailedError(
            FailureKind.UNKNOWN, grpc.StatusCode.DEADLINE_EXCEEDED, "no answer"
        ) from None
    except BaseException:
        stream.cancel()
        raise
    if response.header.revision < position:
        await _check_not_restored(client_calls, key, position)
    return stream


async def _check_not_restored(client_calls: Calls, key: bytes, position: int) -> None:
    """Raise when the cluster was restored from a backup; a member that lags behind is no error."""
    request = pb.RangeRequest(key=key, keys_only=True, limit=1)
    response = await client_calls.attempt(calls.RANGE, request)
    if response.header.revision < position:
        raise CompactedError(
            f"revision {position} does not exist: etcd was restored from a backup or rebuilt"
        )


async def _next_response(stream: _Stream) -> pb.WatchResponse:
    """Return the next response of a watch."""
    response = await stream.read()
    if not isinstance(response, pb.WatchResponse):  # the end of the stream
        code, details = await stream.code(), await stream.details() or ""
        kind = classify_failure(code, details)
        is_ok = code is grpc.StatusCode.OK
        raise AttemptFailedError(FailureKind.UNKNOWN if is_ok else kind, code, details)
    if response.compact_revision:
        raise CompactedError(f"events before revision {response.compact_revision} were compacted")
    if response.canceled:
        raise _watch_cancelled(response.cancel_reason)
    return response


def _watch_cancelled(reason: str) -> AttemptFailedError:
    kind = classify_failure(grpc.StatusCode.UNAVAILABLE, reason)
    if "permission denied" in reason:
        kind = FailureKind.REFUSED
    return AttemptFailedError(kind, grpc.StatusCode.UNAVAILABLE, reason)


def _events_from_proto(response: pb.WatchResponse) -> Events:
    """The revision is that of the last event: events up to that of the header may still follow."""
    changes = tuple(
        (event.kv.key.decode(), None if event.removed else event.kv.value)
        for event in response.events
    )
    return Events(response.events[-1].kv.mod_revision, changes)
