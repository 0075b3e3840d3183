"""Calls with a deadline that names its stage, tried at one member after the other.

A write is repeated only when nothing of the first attempt can have been done (see `errors`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import grpc
import grpc.aio

from penstock.etcd.channel import Channel
from penstock.etcd.errors import (
    Kind,
    OutcomeUnknownError,
    kind_of,
    other_cluster,
    refused,
    unreachable,
)
from penstock.etcd.methods import AUTHENTICATE, A, Method, Q
from penstock.etcd.settings import EtcdSettings
from penstock.model.errors import InternalError

log = logging.getLogger(__name__)

FIRST_PAUSE: Final = 0.05
MOST_PAUSE: Final = 0.5
"""Seconds between attempts, doubling. Shorter floods members that are electing a leader; longer
wastes the time of a lease."""

# Members that have lost their leader refuse at once instead of letting the call run out.
_WANT_LEADER: Final = ("hasleader", "true")

Metadata = tuple[tuple[str, str], ...]


class Failed(Exception):  # noqa: N818 - a step inside this room, never seen outside
    """An attempt failed; the caller decides whether there is another."""

    def __init__(self, kind: Kind, code: grpc.StatusCode, details: str) -> None:
        """Keep what is known."""
        super().__init__(f"{code.name}: {details}")
        self.kind, self.code, self.details = kind, code, details


class Calls:
    """All calls of one client: token, attempts, the identity of the cluster that answers."""

    def __init__(self, settings: EtcdSettings) -> None:
        """Prepare; nothing is sent yet."""
        self.settings = settings
        self.channel = Channel(settings)
        self.revision = 0
        self._ended = False
        self._cluster = 0
        self._token = ""
        self._open_door = not settings.user
        self._login = asyncio.Lock()

    async def call(
        self,
        method: Method[Q, A],
        request: Q,
        stage: str,
        *,
        repeat: bool = True,
        try_for: float | None = None,
    ) -> A:
        """Return the answer of whichever member gives one.

        Raises:
            PenstockError: `etcd.unreachable`, `etcd.outcome_unknown` (only with `repeat=False`), or
                what etcd refused it with.
        """
        limit = self.settings.try_for if try_for is None else try_for
        end = asyncio.get_running_loop().time() + limit
        pause = FIRST_PAUSE
        while True:
            try:
                return await self.attempt(method, request)
            except Failed as failed:
                if failed.kind is Kind.REFUSED:
                    raise self.refusal(failed, stage) from None
                if failed.kind is Kind.UNKNOWN and not repeat:
                    raise OutcomeUnknownError(stage, str(failed)) from None
                if asyncio.get_running_loop().time() + pause > end:
                    endpoints = self.settings.endpoints
                    raise unreachable(endpoints, limit, stage, str(failed)) from None
            await asyncio.sleep(pause)
            pause = min(pause * 2, MOST_PAUSE)

    async def attempt(self, method: Method[Q, A], request: Q) -> A:
        """Try once, at the present member.

        Raises:
            Failed: no answer, or a refusal.
        """
        async with self.guarded():
            metadata = await self.metadata()
            call = self.channel.unary(method)
            answer = await call(request, timeout=self.settings.call_timeout, metadata=metadata)
            self.note(answer)
            return answer

    @asynccontextmanager
    async def guarded(self) -> AsyncIterator[None]:
        """Turn what gRPC raises into `Failed`, and leave a member that does not answer."""
        if self._ended:
            raise Failed(Kind.REFUSED, grpc.StatusCode.CANCELLED, "closed")
        generation = self.channel.generation
        try:
            yield
        except Failed as failed:
            self._learn(failed.kind, generation)
            raise
        except grpc.aio.AioRpcError as error:
            kind = kind_of(error.code(), _words(error))
            self._learn(kind, generation)
            raise Failed(kind, error.code(), _words(error)) from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Not this task was cancelled but the call, with its channel: another one left it.
            raise Failed(Kind.UNKNOWN, grpc.StatusCode.CANCELLED, "the channel was left") from None

    async def metadata(self) -> Metadata:
        """Return what goes with a call; logs in when there is no token."""
        if self._open_door:
            return (_WANT_LEADER,)
        async with self._login:
            if not self._token and not self._open_door:
                await self._authenticate()
        return (_WANT_LEADER, ("token", self._token)) if self._token else (_WANT_LEADER,)

    def note(self, answer: object) -> None:
        """Remember how far the cluster is, and that it is still the same one.

        Raises:
            ConfigError: `etcd.other_cluster`.
        """
        header = getattr(answer, "header", None)
        if header is None or not header.cluster_id:
            return
        if self._cluster and header.cluster_id != self._cluster:
            raise other_cluster(self.channel.endpoint, self._cluster, header.cluster_id)
        self._cluster = header.cluster_id
        self.revision = max(self.revision, header.revision)

    def refusal(self, failed: Failed, stage: str) -> Exception:
        """Return the coded error for a refused attempt."""
        if self._ended:
            return InternalError("etcd.closed", "the client of etcd was closed already")
        return refused(failed.code, failed.details, stage, self.settings.user)

    def ended(self) -> bool:
        """Tell whether it was closed."""
        return self._ended

    async def close(self) -> None:
        """End every call. Idempotent."""
        self._ended = True
        await self.channel.close()

    def _learn(self, kind: Kind, generation: int) -> None:
        if kind is Kind.LOGIN:
            self._token = ""
        elif kind is not Kind.REFUSED:
            self.channel.leave(generation)

    async def _authenticate(self) -> None:
        password = self.settings.password
        method = AUTHENTICATE
        request = method.request(
            name=self.settings.user, password=password.reveal() if password else ""
        )
        try:
            answer = await self.channel.unary(method)(request, timeout=self.settings.call_timeout)
        except grpc.aio.AioRpcError as error:
            if "authentication is not enabled" not in _words(error):
                raise
            log.warning("etcd knows no users, so the one that is configured is not used")
            self._open_door = True
            return
        self._token = answer.token


def _words(error: grpc.aio.AioRpcError) -> str:
    return error.details() or ""
