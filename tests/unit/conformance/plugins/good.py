"""A plugin that keeps every rule: a queue that forgets committed rows, a book that ends, sinks."""

import json
import os
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa

from penstock_connector import (
    AuthError,
    Batch,
    CommitMode,
    ConfigError,
    DataError,
    Dataset,
    FencedError,
    KeyHint,
    OffsetLostError,
    Sink,
    Source,
    TransactionalSink,
    key,
    serve,
)

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("big", pa.int64()),
        ("amount", pa.decimal128(38, 10)),
        ("at", pa.timestamp("us", tz="UTC")),
        ("text", pa.string()),
    ]
)


@dataclass(frozen=True)
class Config:
    """Keys of all of them."""

    folder: str = key(doc="Where everything is.", required=True)
    password: str = key("", doc="For the door.", type="password")
    batch_rows: int = key(5, doc="Rows of a batch.")
    length: int = key(0, doc="Characters of the text of every row; 0: as it is.")

    @classmethod
    def key_hints(cls, values):
        return {"batch.rows": KeyHint(("5", "10")), "length": KeyHint(visible="folder" in values)}


class Door:
    """What they have in common."""

    @classmethod
    def validate(cls, config):
        few = ConfigError("good.few", "batch.rows must be positive", config_path="batch.rows")
        return [few] if config.batch_rows < 1 else []

    @classmethod
    def check(cls, config):
        if config.folder == "/nowhere":
            raise AuthError("good.closed", "the door is closed")


def row_of(line):
    row = json.loads(line)
    amount, at = row.get("amount"), row.get("at")
    row["amount"] = None if amount is None else Decimal(amount)
    row["at"] = None if at is None else datetime.fromisoformat(at).astimezone(UTC)
    return row


class Queue(Door, Source[Config]):
    """Rows of a file of JSON lines; those that were committed are gone for ever."""

    name = "queue"
    config_type = Config
    needs_commit = True

    @classmethod
    def list_datasets(cls, config):
        yield Dataset("in.jsonl", "rows", SCHEMA)

    @classmethod
    def parse_rows(cls, config, rows):
        for row in rows:
            try:
                found = pa.RecordBatch.from_pylist([row_of(row.raw)], SCHEMA)
                yield Batch(found, dataset="rows")
            except (ValueError, pa.ArrowInvalid) as error:
                yield DataError("good.no_row", str(error))

    @property
    def place(self):
        return Path(self.config.folder) / "in.jsonl"

    @property
    def gone(self):
        return Path(self.config.folder) / "gone"

    def connect(self, partitions):
        offset = partitions[0].offset or {}
        self.began = "next" in offset
        self.next = int(offset.get("next", 0))
        forgotten = int(self.gone.read_text()) if self.gone.exists() else 0
        if self.next < forgotten:
            raise OffsetLostError("good.gone", f"rows before {forgotten} are gone")

    def lines(self):
        return self.place.read_text().splitlines()

    def read_batch(self):
        if not self.began:
            self.began = True
            return Batch((), offset={"next": 0}, dataset="rows", await_commit=True)
        lines = self.lines()[self.next : self.next + self.config.batch_rows]
        if not lines:
            return None
        rows = [row_of(line) for line in lines]
        if self.config.length:
            rows = [{**row, "text": "x" * self.config.length} for row in rows]
        self.next += len(rows)
        table = pa.RecordBatch.from_pylist(rows, SCHEMA)
        return Batch(table, offset={"next": self.next}, dataset="rows")

    def caught_up(self):
        return self.began and self.next >= len(self.lines())

    def ack(self, offsets):
        for offset in offsets.values():
            swap(self.gone, str(offset["next"]))


class Book(Queue):
    """The same rows, as a source that ends, and so waits for no commit on its way."""

    name = "book"
    bounded = True

    def connect(self, partitions):
        super().connect(partitions)
        self.began = True

    def finished(self):
        return self.next >= len(self.lines())


def plain(value):
    return value.isoformat() if isinstance(value, datetime) else str(value)


class Rows:
    """Rows in memory."""

    def __init__(self):
        self.rows = []

    def put(self, rows):
        refused = refused_of(rows)
        bad = {number for number, _ in refused}
        self.rows += [row for number, row in enumerate(rows.to_pylist()) if number not in bad]
        return refused

    def close(self):
        pass

    def discard(self):
        self.rows.clear()


def refused_of(rows):
    if "text" not in rows.schema.names:
        return []
    error = DataError("good.bad", "a text that is bad")
    texts = rows.column("text").to_pylist()
    return [(number, error) for number, text in enumerate(texts) if text == "bad"]


def swap(place, text):
    """Write a file so that whoever reads it, also after a kill, finds it whole."""
    part = place.with_name(f".{place.name}.{os.getpid()}")
    part.write_text(text)
    part.rename(place)


def write_rows(place, rows):
    place.write_text("".join(json.dumps(row, default=plain) + "\n" for row in rows))


class Shelf(Door, TransactionalSink[Config]):
    """A file for each transaction; prepared ones are hidden."""

    name = "shelf"
    config_type = Config

    @property
    def place(self):
        return Path(self.config.folder)

    def connect(self, task_id, epoch):
        self.task, self.epoch = task_id, epoch
        swap(self.place / f"epoch-{task_id}", str(epoch))
        self.known = []

    def columns(self, dataset):
        return pa.schema(self.known) if self.known else None

    def apply_schema(self, dataset, schema, key_columns):
        self.known = list(schema)

    def stage(self, txn_id, slot, attempt, dataset, schema):
        return Rows()

    def prepare(self, txn_id, epoch, staged, token):
        name = f"{self.task}-{txn_id:06}"
        write_rows(self.place / f".{name}-{epoch}", [row for one in staged for row in one.rows])
        return json.dumps({"name": name, "epoch": epoch, "token": token.decode()}).encode()

    def commit(self, txn_id, epoch, state):
        self.refuse_older()
        told = json.loads(state)
        hidden = self.place / f".{told['name']}-{told['epoch']}"
        if hidden.exists():
            hidden.rename(self.place / f"{told['name']}.rows")
        return {}

    def refuse_older(self):
        if int((self.place / f"epoch-{self.task}").read_text()) > self.epoch:
            raise FencedError("good.fenced", "another owner is there")

    def sweep(self, txn_id_done):
        for hidden in self.place.glob(f".{self.task}-*"):
            hidden.unlink()


class Till(Shelf):
    """The same, as the authority on how far it came."""

    name = "till"
    commit_modes = (CommitMode.SINK,)

    def commit(self, txn_id, epoch, state):
        super().commit(txn_id, epoch, state)
        swap(self.place / "token", json.dumps([txn_id, epoch, json.loads(state)["token"]]))
        return {}

    def committed(self):
        place = self.place / "token"
        if not place.exists():
            return None
        txn_id, epoch, token = json.loads(place.read_text())
        return txn_id, epoch, token.encode()


class Keyed(Door, Sink[Config]):
    """One file for each key."""

    name = "keyed"
    config_type = Config
    idempotent = True

    def connect(self):
        self.made = OrderedDict()

    def check_batch(self, dataset, rows):
        return refused_of(rows)

    def write_batch(self, dataset, rows):
        for row in rows.to_pylist():
            write_rows(Path(self.config.folder) / f"{row['id']:06}.rows", [row])


CONNECTORS = (Queue, Book, Shelf, Till, Keyed)

if __name__ == "__main__":
    serve(*CONNECTORS, name="good", version="1.0.0")
