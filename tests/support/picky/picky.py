"""A sink that refuses rows whose `kind` is `bad`, and those whose kind is `tell` with its secret in
the words; and fails a few times when a file says so. Rows whose kind is `late` make it fail only
when they are written, and of kind `stuck` so that it may be tried again.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from penstock_connector import DataError, Refused, RetriableError, Sink, key, serve


@dataclass(frozen=True)
class PickyConfig:
    """Keys of the sink."""

    file: str = key(doc="File that rows are appended to, as JSON.")
    failures: str = key("", doc="File with the number of times that it still fails.")
    stamp: str = key("", type="password", doc="A secret whose name does not say that it is one.")


class Picky(Sink[PickyConfig]):
    """Appends rows to a file."""

    name = "picky-sink"

    def connect(self) -> None:
        """Keep no rows yet."""
        self._lines: list[str] = []

    def check_batch(self, dataset: str, rows: pa.RecordBatch) -> Refused:
        """Fail as often as was said, then refuse what is bad."""
        failures = Path(self.config.failures) if self.config.failures else None
        left = int(failures.read_text(encoding="utf-8")) if failures else 0
        if failures and left:
            failures.write_text(str(left - 1), encoding="utf-8")
            raise RetriableError("picky.busy", "not now")
        kinds = rows.column("kind").to_pylist()
        why = DataError("picky.refused", "this row is bad", fix="Take another one.")
        # as a client that puts a port into a URL: the whole value is nowhere, its halves are
        half = len(self.config.stamp) // 2
        stamp = f"{self.config.stamp[:half]}:80/{self.config.stamp[half:]}"
        told = DataError("picky.told", f"{stamp} is not for this row")
        reasons = {"bad": why, "tell": told}
        return [(row, reasons[kind]) for row, kind in enumerate(kinds) if kind in reasons]

    def write_batch(self, dataset: str, rows: pa.RecordBatch) -> Refused:
        """Keep rows, unless one is late or stuck."""
        kinds = rows.column("kind").to_pylist()
        if "late" in kinds:
            raise DataError("picky.late", "one of these rows is bad")
        if "stuck" in kinds:
            raise RetriableError("picky.stuck", "not now")
        self._lines += [json.dumps(row) + "\n" for row in rows.to_pylist()]
        return None

    def flush(self) -> None:
        """Append the rows."""
        with Path(self.config.file).open("a", encoding="utf-8") as file:
            file.writelines(self._lines)
        self._lines.clear()


if __name__ == "__main__":
    serve(Picky)
