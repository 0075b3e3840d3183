"""A plugin made with the SDK: a source that counts, a sink that adds lines to a file."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from penstock_connector import Batch, Partition, Source, TransactionalSink, key, serve


@dataclass(frozen=True)
class CountingConfig:
    """What to count."""

    limit: int = key(doc="Numbers in all.", required=True)
    password: str = key("", doc="None.", sensitive=True)


class Counting(Source[CountingConfig]):
    """Counts."""

    name = "source"
    bounded = True
    needs_commit = True

    def connect(self, partitions: Sequence[Partition]) -> None:
        self.next = int((partitions[0].offset or {"next": 0})["next"])

    def read_batch(self) -> Batch | None:
        rows = [{"n": n} for n in range(self.next, min(self.next + 1000, self.config.limit))]
        self.next += len(rows)
        return Batch(rows, offset={"next": self.next}, dataset="numbers") if rows else None

    def finished(self) -> bool:
        return self.next >= self.config.limit

    def ack(self, offsets: Mapping[str, Mapping]) -> None:
        print(f"acked {json.dumps(list(offsets.values()))}", flush=True)


@dataclass(frozen=True)
class AddingConfig:
    """Where to."""

    path: str = key(doc="File.", required=True)
    password: str = key("", doc="None.", sensitive=True)


class Staged:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def put(self, rows: pa.RecordBatch) -> None:
        self.lines += [json.dumps(row) for row in rows.to_pylist()]

    def close(self) -> None:
        pass

    def discard(self) -> None:
        self.lines = []


class Adding(TransactionalSink[AddingConfig]):
    """Adds lines."""

    name = "sink"

    def columns(self, dataset):
        return pa.schema([("n", pa.int64())]) if dataset == "there" else None

    def stage(self, txn_id, slot, attempt, dataset, schema) -> Staged:
        return Staged()

    def prepare(self, txn_id, epoch, staged, token) -> bytes:
        lines = [line for one in staged for line in one.lines]
        Path(f"{self.config.path}.{txn_id}").write_text("\n".join(lines))
        return str(len(lines)).encode()

    def commit(self, txn_id, epoch, state) -> dict[str, str]:
        part = Path(f"{self.config.path}.{txn_id}")
        if part.exists():
            part.rename(f"{self.config.path}-{txn_id}")
        return {"lines": state.decode()}


if __name__ == "__main__":
    serve(Counting, Adding, name="counting", version="1")
