"""A sink that appends JSON lines to a file: the smallest connector that writes."""

import json
import os
from dataclasses import dataclass

import pyarrow as pa

from penstock_connector import Sink, key, serve


@dataclass(frozen=True)
class JsonLinesConfig:
    """Keys of the sink."""

    path: str = key(doc="File to append to.", required=True)


class JsonLinesSink(Sink[JsonLinesConfig]):
    """Appends rows to a file, one JSON object a line."""

    name = "jsonl"

    def connect(self) -> None:
        """Open the file."""
        self.file = open(self.config.path, "a", encoding="utf-8")  # noqa: PTH123, SIM115 - closed in close

    def write_batch(self, dataset: str, rows: pa.RecordBatch) -> None:
        """Append rows."""
        for row in rows.to_pylist():
            self.file.write(json.dumps({"dataset": dataset, **row}, default=str) + "\n")

    def flush(self) -> None:
        """Make them durable: the host stores its offsets after this."""
        self.file.flush()
        os.fsync(self.file.fileno())

    def close(self) -> None:
        """Close the file."""
        self.file.close()


if __name__ == "__main__":
    serve(JsonLinesSink)
