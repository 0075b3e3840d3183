"""`verifiable-sink`: writes down what arrived, once, in the order in which it was committed."""

from __future__ import annotations

import base64
import json
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa

from penstock_builtin.opening import telling
from penstock_builtin.verifiable.ledger import Ledger
from penstock_builtin.verifiable.rows import SCHEMA, Run, runs_of
from penstock_connector import CommitMode, SchemaError, Staging, TransactionalSink, key
from penstock_connector.reach import Reaching


@dataclass(frozen=True)
class VerifiableSinkConfig(Reaching):
    """Where the ledger is, and how slow and how careful the sink is."""

    ledger: str = key(
        doc="The ledger: a file whose name has an ending (`.jsonl`), shared by all tasks, or a "
        "folder with a file for each task.",
        required=True,
    )
    mode: str = key(
        "two-phase",
        doc="`host` commits without a check whether it did already: at least once. The others are "
        "exactly once; `delivery` chooses between them.",
        choices=("two-phase", "sink", "host"),
    )
    delay_ms: float = key(
        0.0, doc="Time that every batch takes, to be a slow sink.", type="duration"
    )

    def require_reach(self) -> None:
        """Refuse a ledger that may not be reached."""
        self.reach.require_path(self.ledger, "ledger")


@dataclass(slots=True)
class RunStaging:
    """Which rows came in one attempt at a slot; not the rows."""

    slot: int
    delay: float = 0.0
    runs: list[Run] = field(default_factory=list)

    def put(self, rows: pa.RecordBatch) -> None:
        """Note which rows came."""
        if self.delay:
            time.sleep(self.delay)
        for run in runs_of(rows):
            same = next((known for known in self.runs if known.task == run.task), None)
            if same is None:
                self.runs.append(run)
            else:
                same.join(run)

    def close(self) -> None:
        """Nothing is open."""

    def discard(self) -> None:
        """Forget it."""
        self.runs.clear()


class VerifiableSink(TransactionalSink[VerifiableSinkConfig]):
    """A ledger of what arrived.

    Takes the rows of the verifiable source and writes one line of JSON for each slot and source
    task of a transaction: epoch, task, transaction, and the ranges of numbers in their order.
    """

    name = "verifiable-sink"
    aliases = ("VerifiableSink", "org.apache.kafka.connect.tools.VerifiableSinkConnector")
    title = "A ledger of what arrived"
    commit_modes: ClassVar[tuple[CommitMode, ...]] = (
        CommitMode.TWO_PHASE,
        CommitMode.SINK,
        CommitMode.HOST,
    )

    def connect(self, task_id: str, epoch: int) -> None:
        """Fence older epochs, and heal what a crash left."""
        self._task = task_id
        self._ledger = Ledger(self.config.ledger, task_id, epoch)
        with telling(self.config.ledger):
            self._ledger.claim()
        self._serial = self._ledger.last.serial

    def apply_schema(
        self, dataset: str, schema: pa.Schema, key_columns: Sequence[str]
    ) -> Sequence[str] | None:
        """Refuse rows of anything but the verifiable source."""
        found = {field.name: field.type for field in schema}
        if any(found.get(wanted.name) != wanted.type for wanted in SCHEMA):
            raise SchemaError(
                "verifiable.other_rows",
                f"rows of {dataset!r} are not those of the verifiable source",
                fix="Feed it from `verifiable-source`.",
            )
        return None

    def stage(
        self, txn_id: int, slot: int, attempt: int, dataset: str, schema: pa.Schema
    ) -> Staging:
        """Return a place that notes which rows came."""
        return RunStaging(slot, self.config.delay_ms)

    def prepare(self, txn_id: int, epoch: int, staged: Sequence[Staging], token: bytes) -> bytes:
        """Return the lines to be appended. They carry a number of their own, by which a line that
        is in the ledger already is known.
        """
        self._serial += 1
        lines = []
        for staging in staged:
            assert isinstance(staging, RunStaging)  # noqa: S101 - we made them
            lines += [self._line(txn_id, epoch, staging.slot, run) for run in staging.runs]
        empty = Run(-1, [], 0, checksum_ok=True)
        lines = lines or [self._line(txn_id, epoch, -1, empty)]
        state = {
            "serial": self._serial,
            "token": base64.b64encode(token).decode(),
            "lines": lines,
        }
        return zlib.compress(json.dumps(state).encode(), 1)

    def commit(self, txn_id: int, epoch: int, state: bytes) -> None:
        """Append the lines, unless they are there."""
        fields: dict[str, Any] = json.loads(zlib.decompress(state))
        serial, token = fields["serial"], fields["token"]
        with telling(self.config.ledger):
            self._ledger.append(fields["lines"], serial, token, once=self.config.mode != "host")
        self._serial = max(self._serial, serial)

    def committed(self) -> tuple[int, int, bytes] | None:
        """Return the last transaction in the ledger: the token is stored with the rows."""
        last = self._ledger.last
        if self.config.mode == "host" or not last.serial:
            return None
        return last.txn, last.epoch, base64.b64decode(last.token)

    def close(self) -> None:
        """Nothing is kept open."""

    def _line(self, txn_id: int, epoch: int, slot: int, run: Run) -> dict[str, Any]:
        return {
            "epoch": epoch,
            "task": self._task,
            "txn": txn_id,
            "slot": slot,
            "source_task": run.task,
            "partition": str(run.task),
            "sequences": run.ranges,
            "rows": run.rows,
            "checksum_ok": run.checksum_ok,
        }
