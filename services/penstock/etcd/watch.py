"""A watch that resumes after reconnects where it was, and says when it cannot.

A watch is a hint (invariant 7): nothing here promises that an event comes in time, only that none
is passed over in silence. Whoever reads state lists it, and lists again when a hint comes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, Final

import grpc
import grpc.aio

from penstock.api.etcd.v3 import etcd_pb2 as pb
from penstock.etcd import methods, ops
from penstock.etcd.calls import FIRST_PAUSE, Calls, Failed
from penstock.etcd.errors import CompactedError, Kind, kind_of

log = logging.getLogger(__name__)

MOST_PAUSE: Final = 2.0
"""Seconds between attempts to open a watch again, doubling. It has no deadline: whoever waits for
a hint waits for ever. Longer lets the watcher sleep on when etcd is back."""

_Stream = grpc.aio.StreamStreamCall[Any, Any]


@dataclass(frozen=True, slots=True)
class Events:
    """Keys that changed up to `revision`, in order; None is the value of one that was removed."""

    revision: int
    changes: tuple[tuple[str, bytes | None], ...]


async def watch(
    calls: Calls, prefix: str, after: int, *, exact: bool
) -> AsyncGenerator[Events, None]:
    """See `Etcd.watch`."""
    end = b"" if exact else ops.end_of(prefix)
    place, pause = after, FIRST_PAUSE
    while not calls.ended():
        stream: _Stream | None = None
        try:
            async with calls.guarded():
                stream = await _opened(calls, prefix.encode(), end, place)
            pause = FIRST_PAUSE
            while True:
                async with calls.guarded():
                    answer = await _next(stream)
                if answer.events:
                    events = _events(answer)
                    yield events
                    place = events.revision - 1 if answer.fragment else events.revision
                calls.note(answer)
        except Failed as failed:
            if calls.ended():
                return
            if failed.kind is Kind.REFUSED:
                raise calls.refusal(failed, f"watch {prefix}") from None
            log.debug("the watch of %s goes on elsewhere: %s", prefix, failed)
        finally:
            if stream is not None:
                stream.cancel()
        await asyncio.sleep(pause)
        pause = min(pause * 2, MOST_PAUSE)


async def _opened(calls: Calls, key: bytes, end: bytes, place: int) -> _Stream:
    """Return a stream that has told that the watch begins."""
    create = pb.WatchCreateRequest(key=key, range_end=end, start_revision=place + 1, fragment=True)
    stream = calls.channel.stream(methods.WATCH)(metadata=await calls.metadata())
    try:
        async with asyncio.timeout(calls.settings.call_timeout):
            await stream.write(pb.WatchRequest(create_request=create))
            answer = await _next(stream)
    except TimeoutError:
        stream.cancel()
        raise Failed(Kind.UNKNOWN, grpc.StatusCode.DEADLINE_EXCEEDED, "no answer") from None
    except BaseException:
        stream.cancel()
        raise
    if answer.header.revision < place:
        await _not_rewound(calls, key, place)
    return stream


async def _not_rewound(calls: Calls, key: bytes, place: int) -> None:
    """Tell a member that lags, which is fine, from a cluster that was restored from a backup."""
    request = pb.RangeRequest(key=key, keys_only=True, limit=1)
    answer = await calls.attempt(methods.RANGE, request)
    if answer.header.revision < place:
        raise CompactedError(f"revision {place} is of another life of the cluster")


async def _next(stream: _Stream) -> pb.WatchResponse:
    """Return the next frame of a watch that is alive."""
    answer = await stream.read()
    if not isinstance(answer, pb.WatchResponse):  # the end of the stream
        code, details = await stream.code(), await stream.details() or ""
        kind = kind_of(code, details)
        raise Failed(Kind.UNKNOWN if code is grpc.StatusCode.OK else kind, code, details)
    if answer.compact_revision:
        raise CompactedError(f"events before revision {answer.compact_revision} are forgotten")
    if answer.canceled:
        raise _cancelled(answer.cancel_reason)
    return answer


def _cancelled(reason: str) -> Failed:
    kind = kind_of(grpc.StatusCode.UNAVAILABLE, reason)
    if "permission denied" in reason:
        kind = Kind.REFUSED
    return Failed(kind, grpc.StatusCode.UNAVAILABLE, reason)


def _events(answer: pb.WatchResponse) -> Events:
    """The revision is that of the last event: later ones up to the header's may still follow."""
    changes = tuple(
        (event.kv.key.decode(), None if event.removed else event.kv.value)
        for event in answer.events
    )
    return Events(answer.events[-1].kv.mod_revision, changes)
