"""What a read stream may send, and when: rules R5, R8, R9 of the protocol as one pure state."""

from __future__ import annotations

from collections import deque
from collections.abc import Container
from functools import lru_cache
from typing import Final

from penstock.model.identity import is_partition_id
from penstock.model.stream import BatchReady, Checkpoint, StreamSchema
from penstock.plugin.errors import printable, violation

MOST_BATCHES: Final = 65_536
"""Batches that may be ready and not released; what the host keeps of each is about 100 bytes."""
MOST_SCHEMAS: Final = 100_000
MOST_ROWS: Final = 1 << 20
"""Rows of a batch, as the executors take them (`spark/ends/declared.py`)."""


class ReadRules:
    """Follows the frames of one stream and refuses the first that breaks a rule."""

    def __init__(self, credit_bytes: int, planned: Container[str] | None = None) -> None:
        """`planned`: ids of the partitions that may have offsets; None: any, the task finds some by
        itself.
        """
        self._planned = planned
        self.schemas: dict[int, StreamSchema] = {}
        self.last_checkpoint = 0
        self.drained = False
        self._credit = credit_bytes
        self._held = 0  # bytes that are ready and not released
        self._waiting: deque[BatchReady] = deque()
        self._sizes: dict[int, int] = {}  # announced bytes of each of them
        self._last_seq = 0
        self._released = 0
        self._rows = 0  # since the last checkpoint
        self._told = 0
        self._confirmed = 0

    @property
    def held(self) -> int:
        """Bytes that are ready and not released."""
        return self._held

    def schema(self, schema: StreamSchema) -> None:
        """Take a schema version; an id means one schema for the whole stream."""
        self._not_drained("a schema")
        known = self.schemas.setdefault(schema.schema_id, schema)
        if known is not schema and known != schema:
            raise violation(
                "schema_changed", f"schema {schema.schema_id} was sent twice, with other content"
            )
        if len(self.schemas) > MOST_SCHEMAS:
            raise violation("too_many_schemas", f"more than {MOST_SCHEMAS} schemas in one stream")

    def batch(self, ready: BatchReady) -> None:
        """Take a batch that can be fetched."""
        self._not_drained(f"batch {ready.seq}")
        if ready.seq != self._last_seq + 1:
            raise violation("seq_gap", f"batch {ready.seq} came after batch {self._last_seq} (R8)")
        if ready.schema_id not in self.schemas:
            raise violation(
                "unknown_schema", f"batch {ready.seq} has schema {ready.schema_id}, not sent before"
            )
        if ready.rows > MOST_ROWS:
            raise violation(
                "too_many_rows",
                f"batch {ready.seq} has {ready.rows} rows, {MOST_ROWS} are allowed",
            )
        check_partition(ready.partition_id)
        # One batch may overdraw, so that a row larger than the credit cannot block; none may after.
        if self._held >= self._credit:
            raise violation(
                "credit_overdrawn",
                f"batch {ready.seq} was made ready with {self._held} bytes ready of "
                f"{self._credit} allowed (R9)",
            )
        if len(self._waiting) >= MOST_BATCHES:
            raise violation("credit_overdrawn", f"more than {MOST_BATCHES} batches are ready (R9)")
        self._last_seq = ready.seq
        self._held += ready.bytes
        self._rows += ready.rows
        self._waiting.append(ready)
        self._sizes[ready.seq] = ready.bytes

    def checkpoint(self, checkpoint: Checkpoint) -> None:
        """Take a place where a commit may be."""
        self._not_drained(f"checkpoint {checkpoint.checkpoint_id}")
        if checkpoint.checkpoint_id != self.last_checkpoint + 1:
            raise violation(
                "checkpoint_gap",
                f"checkpoint {checkpoint.checkpoint_id} came after "
                f"checkpoint {self.last_checkpoint} (R8)",
            )
        if checkpoint.last_seq != self._last_seq:
            raise violation(
                "checkpoint_place",
                f"checkpoint {checkpoint.checkpoint_id} says that it follows batch "
                f"{checkpoint.last_seq}; it follows batch {self._last_seq}",
            )
        if checkpoint.rows != self._rows:
            raise violation(
                "row_count",
                f"checkpoint {checkpoint.checkpoint_id} says {checkpoint.rows} rows, "
                f"{self._rows} were made ready (R5)",
            )
        for id_ in checkpoint.offsets:
            check_partition(id_)
            if self._planned is not None and id_ not in self._planned:
                raise violation(
                    "unknown_partition",
                    f"checkpoint {checkpoint.checkpoint_id} has an offset of "
                    f"{printable(id_, 200)}, which the task was not given",
                )
        self.last_checkpoint = checkpoint.checkpoint_id
        self._rows = 0

    def drain(self, checkpoint_id: int, *, asked: bool) -> None:
        """Take the end. A source that was not asked to end may leave no row without a place."""
        self._not_drained("a second Drained")
        if checkpoint_id != self.last_checkpoint:
            raise violation(
                "checkpoint_gap",
                f"Drained names checkpoint {checkpoint_id}, the last was {self.last_checkpoint}",
            )
        if self._rows and not asked:
            raise violation(
                "rows_left", f"the source ended with {self._rows} rows after its last checkpoint"
            )
        self.drained = True

    def other(self, what: str) -> None:
        """Take a frame that changes nothing here."""
        self._not_drained(what)

    def tell(self, checkpoint_id: int) -> None:
        """Note that the source is about to be told of commits up to a checkpoint."""
        self._told = checkpoint_id

    def confirm(self, checkpoint_id: int) -> None:
        """Take what the source says it was told; 0 says nothing."""
        if checkpoint_id > self._told:
            raise violation(
                "confirmed_unknown",
                f"the source confirms checkpoint {checkpoint_id}; it was told {self._told}",
            )
        if 0 < checkpoint_id < self._confirmed:
            raise violation(
                "confirmed_back",
                f"the source confirms checkpoint {checkpoint_id} after {self._confirmed}",
            )
        self._confirmed = max(self._confirmed, checkpoint_id)

    def release(self, seq: int) -> bool:
        """Let go of all batches up to one; tell whether there were any."""
        before = self._released
        while self._waiting and self._waiting[0].seq <= seq:
            batch = self._waiting.popleft()
            self._held -= batch.bytes
            del self._sizes[batch.seq]
            self._released = batch.seq
        return self._released > before

    def announced_bytes(self, seq: int) -> int:
        """Return the bytes that a fetchable batch was announced with."""
        return self._sizes[seq]

    def fetchable(self, seq: int) -> bool:
        """Whether a batch was made ready and not released."""
        return self._released < seq <= self._last_seq

    def _not_drained(self, what: str) -> None:
        if self.drained:
            raise violation("after_drained", f"{what} came after Drained")


@lru_cache(maxsize=4096)
def check_partition(id_: str) -> None:
    """Refuse an id that is not the canonical JSON of a key: it would name no stored offset."""
    if not is_partition_id(id_):
        raise violation(
            "partition_id",
            f"{printable(id_, 200)!r} is not the canonical JSON of a partition's key",
        )
