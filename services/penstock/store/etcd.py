"""The driver for a cluster: keys under `/penstock/<cluster>/state/` in etcd.

A revision of the store is one of etcd plus the base in `format` (`etcd_format`): a restored cluster
may be in an etcd whose own revisions have only begun.

A write is one transaction of etcd and has its limits: 128 conditions (one for each check) and a
request of 1.5 MB. More than 128 operations are packed into inner transactions. A write over the
limits is refused as a whole, before it is sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Final

from penstock.api.etcd.v3 import etcd_pb2 as pb
from penstock.etcd import (
    CompactedError,
    Etcd,
    EtcdSettings,
    KeyValue,
    Leadership,
    RangeResult,
    TxnResult,
    operations,
)
from penstock.model import faults
from penstock.model.errors import (
    ConfigError,
    InternalError,
    PenstockError,
    RetriableError,
    error_from_diagnostic,
)
from penstock.store.etcd_format import FORMAT_KEY, EtcdFormat, decode_format
from penstock.store.port import Change, Check, Conflict, Entry, Page, Put

MAX_REQUEST_BYTES: Final = (3 << 19) - 1024
"""Bytes of a request: the default of etcd for --max-request-bytes, minus what etcd adds."""

MAX_WAITING: Final = 1024
"""Writes that wait for etcd at once (invariant 12); further writes wait for a free place."""

MAX_CHANGE_KEYS: Final = 1024
"""Keys of one change. A change of more keys has none, which means `list again`."""

_ATTEMPTS: Final = 3
"""Times that a long range starts again because etcd compacted the revision that it read."""

_RETRY_DELAY_S: Final = 0.5

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
class _WriteCount:
    """Writes of a store, including those through `led_by`."""

    count: int = 0


class EtcdStore:
    """A `Store` in etcd. Owns the client: `close` closes it."""

    def __init__(
        self,
        client: Etcd,
        *,
        max_ops: int = operations.MAX_OPS,
        max_bytes: int = MAX_REQUEST_BYTES,
        leadership: Leadership | None = None,
        revision_base: int = 0,
    ) -> None:
        """`max_ops`, `max_bytes`: the limits with which etcd runs. With `leadership`, writes
        succeed only while it leads. `revision_base`: what revisions are ahead of etcd's own.
        """
        self.revision_base = revision_base
        self._client, self._leadership = client, leadership
        self._max_ops, self._max_bytes = max_ops, max_bytes
        self._root = f"{client.prefix}state/"
        self._write_slots = asyncio.Semaphore(MAX_WAITING)
        self._open_writes = 0
        self._write_count = _WriteCount()
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False

    @staticmethod
    async def open(settings: EtcdSettings) -> EtcdStore:
        """Connect; waits for etcd as `Etcd.connect` does.

        Raises:
            PenstockError: `store.unreachable`, `store.credentials_refused`, `store.newer`,
                `store.restoring`, `store.unsupported_version`, ….
        """
        with _translate_codes():
            client = await Etcd.connect(settings)
            try:
                stored = await _agree_on_format(client)
            except BaseException:
                await client.close()
                raise
            return EtcdStore(client, revision_base=stored.revision_base)

    def led_by(self, leadership: Leadership) -> EtcdStore:
        """Return this store for a leader: its writes succeed only while it leads (invariant 4).

        Afterwards they raise FencedError `election.not_leader`. Do not close the returned store.
        """
        led = EtcdStore(
            self._client,
            max_ops=self._max_ops,
            max_bytes=self._max_bytes,
            leadership=leadership,
            revision_base=self.revision_base,
        )
        led._write_count = self._write_count
        return led

    def statistics(self) -> dict[str, int]:
        """Return the number of durable writes, including those of leaders: one transaction each."""
        return {"writes": self._write_count.count, "groups": self._write_count.count}

    async def get(self, *keys: str) -> Mapping[str, Entry]:
        """Read keys at one revision; those that do not exist are absent."""
        self._refuse_closed()
        found: dict[str, Entry] = {}
        revision = 0
        with _translate_codes():
            for start in range(0, len(keys), self._max_ops):
                chunk = keys[start : start + self._max_ops]
                reads = [operations.read(self._root + key, revision=revision) for key in chunk]
                done = await self._client.txn([], reads, stage="get", repeat=True)
                revision = revision or done.revision
                entries = (self._entry(kv) for one in done.reads for kv in one.entries)
                found.update((entry.key, entry) for entry in entries)
        return found

    async def range(self, prefix: str, after: str = "", limit: int = 1000) -> Page:
        """Read the keys that start with `prefix` and come after `after`, at one revision."""
        self._refuse_closed()
        with _translate_codes():
            for _ in range(_ATTEMPTS - 1):
                with suppress(CompactedError):
                    return await self._range(prefix, after, limit)
            return await self._range(prefix, after, limit)

    async def write(self, checks: Sequence[Check], puts: Sequence[Put]) -> int:
        """Put all or nothing, durably, if every check passes; return the revision of the write.

        Raises:
            Conflict: a check failed.
            ConfigError: `store.write_too_large`.
            RetriableError: `store.outcome_unknown`: no answer came; read before writing again.
        """
        exact = [check for check in checks if check.revision is not None]
        request = self._build_request(exact, dict(puts))
        self._refuse_closed()
        self._open_writes += 1
        self._idle.clear()
        try:
            async with self._write_slots:
                await faults.reach("store.committing")
                done = await self._txn(request)
                await faults.reach("store.committed")
        finally:
            self._open_writes -= 1
            if not self._open_writes:
                self._idle.set()
        if not done.succeeded:
            raise self._conflict(exact, done.reads)
        self._write_count.count += 1
        return self.revision_base + done.revision

    def watch(self, prefix: str, after_revision: int = 0) -> AsyncIterator[Change]:
        """Iterate over changes of keys under `prefix` after a revision; 0: from now on."""
        if not after_revision:
            return self._watch(prefix, self._client.revision)
        return self._watch(prefix, max(after_revision - self.revision_base, 0))

    async def close(self) -> None:
        """Finish the waiting writes, end the watches, disconnect. Idempotent."""
        self._closed = True
        await self._idle.wait()  # each write has a deadline
        await self._client.close()

    async def _txn(self, request: pb.TxnRequest) -> TxnResult:
        if self._leadership is not None:
            self._leadership.check()
        with _translate_codes():
            return await self._client.txn(
                request.compare, request.success, request.failure, stage="write"
            )

    def _build_request(
        self, checks: Sequence[Check], puts: Mapping[str, bytes | None]
    ) -> pb.TxnRequest:
        conditions = [
            operations.mod_revision_is(self._root + c.key, self._in_etcd(c.revision or 0))
            for c in checks
        ]
        otherwise = [operations.read(self._root + c.key, keys_only=True) for c in checks]
        if self._leadership is not None:
            conditions.append(self._leadership.condition())
            otherwise.append(operations.read(self._leadership.key))
        then = operations.pack(
            [self._operation(key, value) for key, value in puts.items()],
            len(conditions),
            self._max_ops,
        )
        if then is None or len(conditions) > self._max_ops:
            raise _too_large(
                f"{len(checks)} checks and {len(puts)} keys",
                f"{self._max_ops} operations",
                "--max-txn-ops",
            )
        request = pb.TxnRequest(compare=conditions, success=then, failure=otherwise)
        if request.ByteSize() > self._max_bytes:
            raise _too_large(
                f"{request.ByteSize()} bytes", f"{self._max_bytes} bytes", "--max-request-bytes"
            )
        return request

    def _operation(self, key: str, value: bytes | None) -> pb.RequestOp:
        full_key = self._root + key
        return operations.remove(full_key) if value is None else operations.put(full_key, value)

    def _conflict(self, checks: Sequence[Check], reads: Sequence[RangeResult]) -> Conflict:
        if self._leadership is not None:
            self._leadership.verify(reads[-1])
        for check, read in zip(checks, reads, strict=False):
            current = self._entry(read.entries[0]).revision if read.entries else 0
            if current != check.revision:
                return Conflict(check.key, current)
        raise InternalError(
            "store.failed", "etcd refused a transaction although all its conditions hold"
        )

    async def _range(self, prefix: str, after: str, limit: int) -> Page:
        entries: list[KeyValue] = []
        revision, more = 0, False
        async for page in self._client.pages(
            self._root + prefix, self._root + after if after else "", limit
        ):
            entries += page.entries
            revision, more = page.revision, page.has_more
        return Page(tuple(map(self._entry, entries)), self.revision_base + revision, more)

    async def _watch(self, prefix: str, after: int) -> AsyncIterator[Change]:
        while not self._closed:
            try:
                with _translate_codes():
                    async with aclosing(self._client.watch(self._root + prefix, after)) as watch:
                        async for events in watch:
                            after = events.revision
                            keys = {key.removeprefix(self._root) for key, _ in events.changes}
                            names_keys = len(keys) <= MAX_CHANGE_KEYS
                            revision = self.revision_base + after
                            yield Change(revision, tuple(sorted(keys)) if names_keys else ())
            except RetriableError as error:
                if error.code != "store.compacted":
                    raise
            else:
                return
            after = await self._current_revision()
            if not self._closed:
                yield Change(self.revision_base + after)

    async def _current_revision(self) -> int:
        """Return the current revision of etcd; waits until it answers."""
        while not self._closed:
            try:
                return (await self._client.get(f"{self._client.prefix}format")).revision
            except PenstockError:
                await asyncio.sleep(_RETRY_DELAY_S)
        return 0

    def _entry(self, kv: KeyValue) -> Entry:
        revision = self.revision_base + kv.mod_revision
        return Entry(kv.key.removeprefix(self._root), kv.value, revision)

    def _in_etcd(self, revision: int) -> int:
        """Return the revision of etcd that a key must have; 0: the key must not exist."""
        if revision == 0:
            return 0
        # from before a restore: no key has it any more, and etcd must not read it as "no key"
        return revision - self.revision_base if revision > self.revision_base else -1

    def _refuse_closed(self) -> None:
        if self._closed:
            raise InternalError("store.closed", "the store in etcd was closed already")


@contextmanager
def _translate_codes() -> Iterator[None]:
    """Replace the codes of etcd errors by those of the port."""
    try:
        yield
    except PenstockError as error:
        code = _CODES.get(error.code)
        if code is None:
            raise
        raise error_from_diagnostic(replace(error.diagnostic, code=code)) from error


async def _agree_on_format(client: Etcd) -> EtcdFormat:
    """Store the format at first use and return the stored one. Its key is not a key of the port.

    Raises:
        PenstockError: `store.newer`, `store.restoring`.
    """
    key = f"{client.prefix}{FORMAT_KEY}"
    done = await client.txn(
        [operations.create_revision_is(key, 0)],
        [operations.put(key, EtcdFormat().encode())],
        [operations.read(key)],
        stage="read the format",
        repeat=True,
    )
    if done.succeeded:
        return EtcdFormat()
    (entry,) = done.reads[0].entries
    stored = decode_format(entry.value, client.prefix)
    stored.refuse_restoring(client.prefix)
    return stored


async def refuse_restoring(client: Etcd) -> None:
    """Raise where only a part of a backup is there, in etcd or in the database of its services.

    Raises:
        PenstockError: `store.newer`, `store.restoring`.
    """
    with _translate_codes():
        found = await client.get(f"{client.prefix}{FORMAT_KEY}")
    for entry in found.entries:
        decode_format(entry.value, client.prefix).refuse_restoring(client.prefix)


def _too_large(size: str, limit: str, option: str) -> ConfigError:
    return ConfigError(
        "store.write_too_large",
        f"a write of {size} exceeds the {limit} of one transaction of etcd",
        fix=f"Split the change, raise {option} of etcd together with the limit of the driver, or "
        "use PostgreSQL.",
    )
