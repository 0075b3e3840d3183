"""What the verifiable sink wrote down: append-only, one JSON object for each committed batch.

A line is one partition's part of one transaction:

    {"epoch": 7, "task": "c/0", "txn": 12, "slot": 0, "source_task": 1, "partition": "1",
     "sequences": [[0, 499], [600, 699]], "rows": 600, "checksum_ok": true, "mono_ns": 123456789}

One range may also be written as `first_seq` and `last_seq`. Ranges stand in the order of their
rows. A line that a crash cut short has no newline and was never committed: it is set apart, not an
error. Any other line that cannot be read is an error, because a ledger that is read half would
call a loss a success.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.testing.spans import Span, size


class LedgerError(ValueError):
    """A line of a ledger is not what the verifiable sink writes."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One partition's rows in one committed batch. `source_task` and `slot` are -1 if not known."""

    epoch: int
    task: str
    txn: int
    partition: str
    sequences: tuple[Span, ...]
    rows: int
    checksum_ok: bool = True
    slot: int = -1
    source_task: int = -1
    mono_ns: int = 0
    line: str = ""

    def __post_init__(self) -> None:
        if self.rows != size(self.sequences):
            raise LedgerError(f"{self.line or self}: {self.rows} rows in {self.sequences}")


@dataclass(frozen=True, slots=True)
class Ledger:
    """The committed batches in the order in which they were committed. `torn`: lines cut short."""

    entries: tuple[Entry, ...]
    torn: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """How many rows were written, repeated ones counted each time."""
        return sum(entry.rows for entry in self.entries)


def read_ledger(path: Path) -> Ledger:
    """Return the ledger in a file, or in all `*.jsonl` files of a folder, merged by time.

    A path that does not exist is an empty ledger: nothing was committed.

    Raises:
        LedgerError: a whole line is not an entry.
    """
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    entries: list[Entry] = []
    torn: list[str] = []
    for file in files:
        lines, rest = _whole_lines(file)
        entries += parse(lines, str(file))
        torn += [rest] if rest else []
    # One machine has one monotonic clock; within a file the order of lines decides.
    ordered = sorted(entries, key=lambda entry: entry.mono_ns) if len(files) > 1 else entries
    return Ledger(tuple(ordered), tuple(torn))


def parse(lines: Iterable[str], name: str = "ledger") -> Iterator[Entry]:
    """Yield the entries of whole lines. `name` is how errors call the place."""
    for number, line in enumerate(lines, start=1):
        where = f"{name}:{number}"
        try:
            fields = json.loads(line)
            yield _entry(fields, where)
        except LedgerError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise LedgerError(f"{where}: not an entry ({error!r}): {line[:200]}") from error


def _whole_lines(file: Path) -> tuple[list[str], str]:
    if not file.exists():
        return [], ""
    *whole, rest = file.read_text(encoding="utf-8", errors="replace").split("\n")
    return whole, rest


def _entry(fields: Mapping[str, Any], where: str) -> Entry:
    return Entry(
        epoch=int(fields["epoch"]),
        task=str(fields["task"]),
        txn=int(fields["txn"]),
        partition=str(fields["partition"]),
        sequences=_sequences(fields),
        rows=int(fields["rows"]),
        checksum_ok=bool(fields["checksum_ok"]),
        slot=int(fields.get("slot", -1)),
        source_task=int(fields.get("source_task", -1)),
        mono_ns=int(fields.get("mono_ns", 0)),
        line=where,
    )


def _sequences(fields: Mapping[str, Any]) -> tuple[Span, ...]:
    if "sequences" in fields:
        return tuple((int(first), int(last)) for first, last in fields["sequences"])
    return ((int(fields["first_seq"]), int(fields["last_seq"])),)
