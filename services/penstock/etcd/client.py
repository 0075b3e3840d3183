"""The client: what the rooms above say to etcd, in plain values."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from typing import Final

from penstock.api.etcd.v3 import etcd_pb2 as pb
from penstock.etcd import methods, ops
from penstock.etcd.calls import Calls, Failed
from penstock.etcd.errors import Kind, refuse_older, unreachable
from penstock.etcd.ops import Done, Found
from penstock.etcd.settings import EtcdSettings
from penstock.etcd.watch import Events, watch
from penstock.model.errors import PenstockError

log = logging.getLogger(__name__)

_LOOK: Final = 2.0
"""Seconds of one round of attempts at the start, after which the log says what is waited for."""


_LEAST: Final = 0.1
"""Seconds of the shortest round, and between rounds: a shorter one ends before any answer."""


class Etcd:
    """One client of one etcd cluster. Made by `connect`, ended by `close`; one event loop."""

    def __init__(self, settings: EtcdSettings) -> None:
        """Prepare; nothing is sent yet."""
        self.settings = settings
        self._calls = Calls(settings)

    @staticmethod
    async def connect(settings: EtcdSettings) -> Etcd:
        """Return a client that has had an answer. Waits for members that are still starting.

        Raises:
            PenstockError: `etcd.unreachable` after `start_for` seconds, or at once what etcd
                refused: `etcd.credentials_refused`, `etcd.permission_denied`, …; or
                `etcd.unsupported_version`.
        """
        client = Etcd(settings)
        try:
            await client._greet()
            refuse_older(client.endpoint, await client.version())
        except BaseException:
            await client.close()
            raise
        return client

    @property
    def prefix(self) -> str:
        """What every key of the Penstock cluster begins with."""
        return self.settings.prefix

    @property
    def revision(self) -> int:
        """The newest revision that any answer has told."""
        return self._calls.revision

    @property
    def endpoint(self) -> str:
        """The member that is spoken to now."""
        return self._calls.channel.endpoint

    async def version(self) -> str:
        """Return the version of the member that is spoken to."""
        answer = await self._calls.call(methods.STATUS, pb.StatusRequest(), "ask for the version")
        return str(answer.version)

    async def get(self, key: str) -> Found:
        """Read one key."""
        request = pb.RangeRequest(key=key.encode())
        answer = await self._calls.call(methods.RANGE, request, f"get {key}")
        return ops.found(answer, answer.header.revision)

    async def range(self, prefix: str, after: str = "", limit: int = 0, revision: int = 0) -> Found:
        """Read keys under a prefix that come after another, now or as they were at a revision.

        Raises:
            CompactedError: that revision is forgotten.
        """
        first = max(prefix.encode(), after.encode() + b"\0" if after else b"")
        end = ops.end_of(prefix)
        if first >= end:  # etcd would take it for an open end
            return Found((), revision or self.revision)
        request = pb.RangeRequest(key=first, range_end=end, limit=limit, revision=revision)
        answer = await self._calls.call(methods.RANGE, request, f"range {prefix}")
        return ops.found(answer, revision or answer.header.revision)

    async def txn(
        self,
        conditions: Sequence[pb.Compare],
        then: Sequence[pb.RequestOp],
        otherwise: Sequence[pb.RequestOp] = (),
        *,
        stage: str,
        repeat: bool = False,
    ) -> Done:
        """Do all of `then` when every condition holds, else all of `otherwise`.

        `repeat`: it may happen twice, so it is tried again when no answer came.

        Raises:
            OutcomeUnknownError: no answer came, and it may not happen twice.
        """
        request = pb.TxnRequest(compare=conditions, success=then, failure=otherwise)
        return ops.done(await self._calls.call(methods.TXN, request, stage, repeat=repeat))

    async def grant(self, ttl: int) -> tuple[int, int]:
        """Make a lease; returns its id and how many seconds it really lives.

        A grant whose answer is lost leaves a lease behind that nobody pings, and so ends.
        """
        request = pb.LeaseGrantRequest(ttl=ttl)
        answer = await self._calls.call(methods.GRANT, request, "grant a lease")
        return answer.id, answer.ttl

    async def revoke(self, lease: int) -> None:
        """End a lease and remove its keys; one that has ended already is fine."""
        try:
            request = pb.LeaseRevokeRequest(id=lease)
            await self._calls.call(methods.REVOKE, request, "revoke a lease")
        except PenstockError as error:
            if error.code != "etcd.lease_lost":
                raise

    async def ping(self, lease: int, timeout: float) -> int:  # noqa: ASYNC109 - the call's own
        """Let a lease live on; returns for how many seconds, 0 when it is gone. One attempt.

        Raises:
            PenstockError: no answer, or a refusal.
        """
        calls = self._calls
        try:
            async with calls.guarded():
                call = calls.channel.stream(methods.KEEP_ALIVE)(
                    iter((pb.LeaseKeepAliveRequest(id=lease),)),
                    timeout=timeout,
                    metadata=await calls.metadata(),
                )
                answer = await call.read()
                call.cancel()
                if not isinstance(answer, pb.LeaseKeepAliveResponse):  # the end of the stream
                    raise Failed(Kind.UNKNOWN, await call.code(), await call.details() or "")
        except Failed as failed:
            if failed.kind is Kind.REFUSED:
                raise calls.refusal(failed, "keep a lease") from None
            one = (self.endpoint,)
            raise unreachable(one, timeout, "keep a lease", str(failed)) from None
        calls.note(answer)
        return answer.ttl

    def watch(
        self, prefix: str, after: int, *, exact: bool = False
    ) -> AsyncGenerator[Events, None]:
        """Tell about changes under a prefix (or of one key) after a revision, across reconnects.

        Ends when the client is closed.

        Raises:
            CompactedError: what came after that revision is forgotten, or never was: list again.
        """
        return watch(self._calls, prefix, after, exact=exact)

    async def close(self) -> None:
        """End every call and watch. Idempotent."""
        await self._calls.close()

    async def _greet(self) -> None:
        """Have an answer, and say meanwhile what is waited for."""
        settings, loop = self.settings, asyncio.get_running_loop()
        key = f"{self.prefix}cluster"
        end = loop.time() + settings.start_for
        while True:
            left = end - loop.time()
            try:
                request = pb.RangeRequest(key=key.encode(), keys_only=True)
                patience = min(_LOOK, left)
                await self._calls.call(methods.RANGE, request, "connect", try_for=patience)
            except PenstockError as error:
                if error.code != "etcd.unreachable":
                    raise
                left = end - loop.time()
                if left < _LEAST:
                    why = error.diagnostic.message.rpartition(" s: ")[2]
                    raise unreachable(
                        settings.endpoints, settings.start_for, "connect", why
                    ) from None
                log.warning("%s; trying for %.1f s more", error.diagnostic.message, left)
                await asyncio.sleep(_LEAST)
            else:
                return
