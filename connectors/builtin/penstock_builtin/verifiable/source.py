"""`verifiable-source`: numbered rows, from a source that forgets what was acknowledged."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from penstock_builtin.opening import telling
from penstock_builtin.pacing import Pace
from penstock_builtin.verifiable.rows import make_rows
from penstock_connector import (
    Batch,
    ConfigError,
    OffsetLostError,
    Partition,
    Source,
    key,
    partition_id,
)
from penstock_connector.reach import Reaching


@dataclass(frozen=True)
class VerifiableSourceConfig(Reaching):
    """How many rows, how fast, and what is forgotten."""

    pipeline: str = key("verifiable", doc="Name that every row carries.")
    partitions: int = key(1, doc='Partitions `{"pipeline", "task"}`, each numbered from 0.')
    tasks: int = key(0, doc="The same under another name; the larger one counts.")
    rows: int = key(0, doc="Rows of each partition; 0: no end.")
    rate: float = key(0.0, doc="Rows a second of each partition; 0: as fast as can be.")
    batch_rows: int = key(100, doc="Rows of a batch.")
    prune: bool = key(
        False,
        doc="Forget rows once they are acknowledged, durably, in `state.dir`; a request for them "
        "is `verifiable.gap` then (offset lost).",
    )
    state_dir: str = key("", doc="Folder that remembers what was forgotten; needed for `prune`.")
    gate: int = key(
        0, doc="Rows of a partition after which it waits until they are committed; 0: never."
    )
    dataset: str = key("", doc="Dataset of the rows. Empty: the connector's `topic`.")

    def require_reach(self) -> None:
        """Refuse a folder that may not be reached."""
        self.reach.require_path(self.state_dir, "state.dir")

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        if self.prune and not self.state_dir:
            raise ConfigError(
                "config.missing",
                "`prune` needs a folder to remember in",
                fix="Set `state.dir`.",
                config_path="state.dir",
            )
        if self.batch_rows < 1 or max(self.partitions, self.tasks) < 1:
            raise ConfigError("config.invalid_value", "there must be rows and partitions")


@dataclass(slots=True)
class _Sequence:
    """A partition and its next number."""

    number: int
    next: int
    pace: Pace
    waits_for: int = 0
    """What has to be committed before it goes on."""
    committed: int = 0


class VerifiableSource(Source[VerifiableSourceConfig]):
    """Numbered rows with checksums.

    Rows are (pipeline, task, seq, checksum); `task` is the number of the partition. With `prune`
    it behaves like a queue or a replication slot: what was acknowledged is gone.
    """

    name = "verifiable-source"
    aliases = ("VerifiableSource", "org.apache.kafka.connect.tools.VerifiableSourceConnector")
    title = "Numbered rows with checksums"
    bounded: ClassVar[bool] = True  # asked for `finished`, which says no without `rows`
    needs_commit: ClassVar[bool] = True

    @classmethod
    def plan(
        cls, config: VerifiableSourceConfig, max_tasks: int, known: Sequence[Partition]
    ) -> Sequence[Partition]:
        """Return as many partitions as are asked for."""
        count = max(config.partitions, config.tasks)
        return [_partition(config, number) for number in range(count)]

    def connect(self, partitions: Sequence[Partition]) -> None:
        """Go on at the committed number.

        Raises:
            OffsetLostError: `verifiable.gap`: the rows from there on are forgotten.
        """
        self._sequences: dict[str, _Sequence] = {}
        for partition in partitions:
            number = int(partition.key["task"])
            start = int((partition.offset or {}).get("seq", 0))
            forgotten = self._forgotten(number)
            if start < forgotten:
                raise OffsetLostError(
                    "verifiable.gap",
                    f"partition {number} is asked for from {start} on; rows below {forgotten} were "
                    "acknowledged and are forgotten",
                    fix="An acknowledgement came before its offset was durable: a defect.",
                )
            if self.config.prune and start > forgotten:
                self._forget(number, start)  # a crash came between this offset and its ack
            pace = Pace(self.config.rate)
            self._sequences[partition.id] = _Sequence(number, start, pace)
        self._turns = deque(self._sequences)

    def read_batch(self) -> Batch | None:
        """Return the next rows of the partition whose turn it is."""
        for _ in range(len(self._turns)):
            self._turns.rotate(-1)
            sequence = self._sequences[self._turns[-1]]
            if sequence.committed < sequence.waits_for:
                continue
            count = min(self.config.batch_rows, self._left(sequence))
            count = sequence.pace.due(count)
            if count:
                return self._batch(sequence, count)
        return None

    def wait(self, timeout: float) -> None:
        """Block until a row is due."""
        ready = [s for s in self._sequences.values() if s.committed >= s.waits_for]
        waits = [s.pace.wait() for s in ready if self._left(s)]
        self._woken.wait(min([timeout, *waits]))
        self._woken.clear()

    def finished(self) -> bool:
        """Return whether every partition gave its rows."""
        return not any(map(self._left, self._sequences.values()))

    def remaining(self) -> tuple[int, int]:
        """Return the rows that are left."""
        left = sum(map(self._left, self._sequences.values())) if self.config.rows else -1
        return -1, left

    def ack(self, offsets: Mapping[str, Mapping[str, int]]) -> None:
        """Go on where it waited for this; forget what was acknowledged, for good."""
        for id_, offset in offsets.items():
            sequence = self._sequences[id_]
            sequence.committed = int(offset["seq"])
            if self.config.prune:
                self._forget(sequence.number, sequence.committed)

    def _left(self, sequence: _Sequence) -> int:
        if not self.config.rows:
            return self.config.batch_rows
        return max(self.config.rows - sequence.next, 0)

    def _batch(self, sequence: _Sequence, count: int) -> Batch:
        rows = make_rows(self.config.pipeline, sequence.number, sequence.next, count)
        sequence.next += count
        sequence.pace.gave(count)
        gate = self.config.gate
        gated = bool(gate) and sequence.next // gate > (sequence.next - count) // gate
        if gated:
            sequence.waits_for = sequence.next
        return Batch(
            rows,
            partition=_partition(self.config, sequence.number),
            offset={"seq": sequence.next},
            dataset=self.config.dataset,
            await_commit=gated,
        )

    def _path(self, number: int) -> Path:
        key_id = partition_id({"pipeline": self.config.pipeline, "task": number})
        return Path(self.config.state_dir, f"forgotten-{key_id.encode().hex()}")

    def _forgotten(self, number: int) -> int:
        if not self.config.prune:
            return 0
        try:
            return int(self._path(number).read_text(encoding="ascii"))
        except FileNotFoundError:
            return 0

    def _forget(self, number: int, below: int) -> None:
        path = self._path(number)
        with telling(str(path)):
            path.parent.mkdir(parents=True, exist_ok=True)
            new = path.with_suffix(".new")
            with new.open("w", encoding="ascii") as file:
                file.write(str(below))
                file.flush()
                os.fsync(file.fileno())
            new.replace(path)


def _partition(config: VerifiableSourceConfig, number: int) -> Partition:
    key_ = {"pipeline": config.pipeline, "task": number}
    return Partition(key_, bounded=config.rows > 0)
