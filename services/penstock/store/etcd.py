"""The driver for a cluster: keys under `/penstock/<cluster>/state/` of etcd.

A write is one etcd transaction, so etcd's limits are its own: 128 conditions (one for each check)
and a request of 1.5 MB. More operations than 128 go as transactions inside the transaction. Over
the limits a write is refused whole, before it is sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Final

from penstock.api.etcd.v3 import etcd_pb2 as pb
from penstock.etcd import CompactedError, Done, Etcd, EtcdSettings, Found, Kv, Leadership, ops
from penstock.model import faults
from penstock.model.errors import (
    ConfigError,
    InternalError,
    PenstockError,
    RetriableError,
    error_of,
)
from penstock.store.errors import newer
from penstock.store.port import FORMAT, Change, Check, Conflict, Entry, Page, Put

MOST_BYTES: Final = (3 << 19) - 1024
"""Bytes of a request: etcd's default for --max-request-bytes, less what it adds."""

MOST_WAITING: Final = 1024
"""Calls that may wait for etcd (invariant 12); others wait for a place."""

MOST_KEYS: Final = 1024
"""Keys named in one change; more are told as `list again`."""

_PAGE: Final = 1000
_ATTEMPTS: Final = 3
"""Times that a long range begins anew because etcd forgot the revision it was reading at."""

_PAUSE: Final = 0.5

_CODES: Final = {
    "etcd.unreachable": "store.unreachable",
    "etcd.outcome_unknown": "store.outcome_unknown",
    "etcd.request_too_large": "store.write_too_large",
    "etcd.answer_too_large": "store.answer_too_large",
    "etcd.no_space": "store.full",
    "etcd.closed": "store.closed",
    "etcd.compacted": "store.compacted",
    "etcd.failed": "store.failed",
    "etcd.permission_denied": "store.permission_denied",
    "etcd.credentials_refused": "store.credentials_refused",
    "etcd.credentials_missing": "store.credentials_missing",
    "etcd.other_cluster": "store.foreign",
    "etcd.unsupported_version": "store.unsupported_version",
}


@dataclass(slots=True)
class _Written:
    """Writes of a store, and of what leaders were given of it."""

    count: int = 0


class EtcdStore:
    """A `Store` in etcd. Takes the client over: `close` closes it."""

    def __init__(
        self,
        client: Etcd,
        *,
        most_ops: int = ops.MOST_OPS,
        most_bytes: int = MOST_BYTES,
        leadership: Leadership | None = None,
    ) -> None:
        """Keep state in what the client is connected to. The limits are those etcd runs with."""
        self._client, self._leadership = client, leadership
        self._most_ops, self._most_bytes = most_ops, most_bytes
        self._root = f"{client.prefix}state/"
        self._places = asyncio.Semaphore(MOST_WAITING)
        self._writing = 0
        self._written = _Written()
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False

    @staticmethod
    async def open(settings: EtcdSettings) -> EtcdStore:
        """Connect, waiting for etcd as `Etcd.connect` does.

        Raises:
            PenstockError: `store.unreachable`, `store.credentials_refused`, `store.newer`,
                `store.unsupported_version`, ….
        """
        with _translated():
            client = await Etcd.connect(settings)
            try:
                await _stamp(client)
            except BaseException:
                await client.close()
                raise
            return EtcdStore(client)

    def led_by(self, leadership: Leadership) -> EtcdStore:
        """Return the same store for a leader: each write holds only while it leads (invariant 4).

        Its writes raise FencedError `election.not_leader` afterwards. It is not to be closed.
        """
        led = EtcdStore(
            self._client,
            most_ops=self._most_ops,
            most_bytes=self._most_bytes,
            leadership=leadership,
        )
        led._written = self._written
        return led

    def statistics(self) -> dict[str, int]:
        """Return how many writes were made durable, those of leaders too: each is a transaction."""
        return {"writes": self._written.count, "groups": self._written.count}

    async def get(self, *keys: str) -> Mapping[str, Entry]:
        """Read keys at one revision; those that do not exist are absent."""
        self._refuse_closed()
        found: dict[str, Entry] = {}
        revision = 0
        with _translated():
            for start in range(0, len(keys), self._most_ops):
                chunk = keys[start : start + self._most_ops]
                reads = [ops.read(self._root + key, revision=revision) for key in chunk]
                done = await self._client.txn([], reads, stage="get", repeat=True)
                revision = revision or done.revision
                entries = (self._entry(kv) for one in done.found for kv in one.entries)
                found.update((entry.key, entry) for entry in entries)
        return found

    async def range(self, prefix: str, after: str = "", limit: int = 1000) -> Page:
        """Read the keys that start with `prefix` and come after `after`, at one revision."""
        self._refuse_closed()
        with _translated():
            for _ in range(_ATTEMPTS - 1):
                with suppress(CompactedError):
                    return await self._range(prefix, after, limit)
            return await self._range(prefix, after, limit)

    async def write(self, checks: Sequence[Check], puts: Sequence[Put]) -> int:
        """Put all or nothing, durably, if every check holds; returns the revision of the write.

        Raises:
            Conflict: a check failed.
            ConfigError: `store.write_too_large`.
            RetriableError: `store.outcome_unknown`: no answer came; read before writing again.
        """
        exact = [check for check in checks if check.revision is not None]
        request = self._request(exact, dict(puts))
        self._refuse_closed()
        self._writing += 1
        self._idle.clear()
        try:
            async with self._places:
                await faults.reach("store.committing")
                done = await self._txn(request)
                await faults.reach("store.committed")
        finally:
            self._writing -= 1
            if not self._writing:
                self._idle.set()
        if not done.succeeded:
            raise self._conflict(exact, done.found)
        self._written.count += 1
        return done.revision

    def watch(self, prefix: str, after_revision: int = 0) -> AsyncIterator[Change]:
        """Tell about writes to keys under `prefix` after a revision; 0 for from now."""
        return self._watch(prefix, after_revision or self._client.revision)

    async def close(self) -> None:
        """Finish the writes that wait, end the watches, hang up. Idempotent."""
        self._closed = True
        await self._idle.wait()  # each write has a deadline
        await self._client.close()

    async def _txn(self, request: pb.TxnRequest) -> Done:
        if self._leadership is not None:
            self._leadership.check()
        with _translated():
            return await self._client.txn(
                request.compare, request.success, request.failure, stage="write"
            )

    def _request(self, checks: Sequence[Check], puts: Mapping[str, bytes | None]) -> pb.TxnRequest:
        conditions = [ops.unchanged(self._root + c.key, c.revision or 0) for c in checks]
        otherwise = [ops.read(self._root + c.key, keys_only=True) for c in checks]
        if self._leadership is not None:
            conditions.append(self._leadership.still())
            otherwise.append(ops.read(self._leadership.key))
        then = ops.packed(
            [self._operation(key, value) for key, value in puts.items()],
            len(conditions),
            self._most_ops,
        )
        if then is None or len(conditions) > self._most_ops:
            what = f"{len(checks)} checks and {len(puts)} keys"
            raise _too_large(f"{what}, with {self._most_ops} operations", "--max-txn-ops")
        request = pb.TxnRequest(compare=conditions, success=then, failure=otherwise)
        if request.ByteSize() > self._most_bytes:
            raise _too_large(
                f"{request.ByteSize()} bytes, with {self._most_bytes}", "--max-request-bytes"
            )
        return request

    def _operation(self, key: str, value: bytes | None) -> pb.RequestOp:
        place = self._root + key
        return ops.remove(place) if value is None else ops.put(place, value)

    def _conflict(self, checks: Sequence[Check], found: Sequence[Found]) -> Conflict:
        if self._leadership is not None:
            self._leadership.verify(found[-1])
        for check, now in zip(checks, found, strict=False):
            current = now.entries[0].revision if now.entries else 0
            if current != check.revision:
                return Conflict(check.key, current)
        raise InternalError("store.failed", "etcd refused a transaction whose conditions hold")

    async def _range(self, prefix: str, after: str, limit: int) -> Page:
        entries: list[Kv] = []
        revision, more, size = 0, True, _PAGE
        place = self._root + after if after else ""
        while more and len(entries) < limit:
            try:
                page = await self._client.range(
                    self._root + prefix, place, min(size, limit - len(entries)), revision
                )
            except ConfigError as error:
                if error.code != "etcd.answer_too_large" or size == 1:
                    raise
                size = max(1, size // 8)  # large values: fewer at once
                continue
            entries += page.entries
            revision, more = page.revision, page.more
            place = entries[-1].key if entries else place
        return Page(tuple(map(self._entry, entries)), revision, more)

    async def _watch(self, prefix: str, after: int) -> AsyncIterator[Change]:
        while not self._closed:
            try:
                with _translated():
                    async with aclosing(self._client.watch(self._root + prefix, after)) as watch:
                        async for events in watch:
                            after = events.revision
                            keys = {key.removeprefix(self._root) for key, _ in events.changes}
                            few = len(keys) <= MOST_KEYS
                            yield Change(after, tuple(sorted(keys)) if few else ())
            except RetriableError as error:
                if error.code != "store.compacted":
                    raise
            else:
                return
            after = await self._present()
            if not self._closed:
                yield Change(after)

    async def _present(self) -> int:
        """Return the revision of now, whenever etcd is there to tell it."""
        while not self._closed:
            try:
                return (await self._client.get(f"{self._client.prefix}format")).revision
            except PenstockError:
                await asyncio.sleep(_PAUSE)
        return 0

    def _entry(self, kv: Kv) -> Entry:
        return Entry(kv.key.removeprefix(self._root), kv.value, kv.revision)

    def _refuse_closed(self) -> None:
        if self._closed:
            raise InternalError("store.closed", "the store in etcd was closed already")


@contextmanager
def _translated() -> Iterator[None]:
    """Give errors of etcd the codes that the port promises."""
    try:
        yield
    except PenstockError as error:
        code = _CODES.get(error.code)
        if code is None:
            raise
        raise error_of(replace(error.diagnostic, code=code)) from error


async def _stamp(client: Etcd) -> None:
    """Write down which format is kept here, or refuse a newer one. Beside the state, not in it: it
    is no key of the port.
    """
    key = f"{client.prefix}format"
    done = await client.txn(
        [ops.created(key, 0)],
        [ops.put(key, str(FORMAT).encode())],
        [ops.read(key)],
        stage="read the format",
        repeat=True,
    )
    if done.succeeded:
        return
    (entry,) = done.found[0].entries
    found = entry.value.decode(errors="replace")
    if not found.isdecimal() or int(found) > FORMAT:
        raise newer(f"what is under {client.prefix} in etcd", found[:20])


def _too_large(what: str, option: str) -> ConfigError:
    return ConfigError(
        "store.write_too_large",
        f"a write of {what} at most, does not fit into one transaction of etcd",
        fix=f"Split the change, raise {option} of etcd and this limit alike, or use PostgreSQL.",
    )
