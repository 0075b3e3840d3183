"""A source of metrics: each metric of each host is a partition, and nobody enumerates them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from penstock_connector import (
    Batch,
    ConfigError,
    Partition,
    Source,
    divide_range,
    key,
    partition_id,
    serve,
)


@dataclass(frozen=True)
class HostMetricsConfig:
    """Keys of the source."""

    folder: str = key(doc="Folder with a file for each host: lines of metric, time, value.")
    bounds: tuple[str, ...] = key((), doc="Hosts at which another range begins: `h,q`.")
    batch_rows: int = key(10_000, doc="Rows of a batch, and so at most as many offsets.")


class HostMetrics(Source[HostMetricsConfig]):
    """Follows the files of hosts."""

    name = "host-metrics"

    @classmethod
    def check(cls, config: HostMetricsConfig) -> None:
        """Look for the folder."""
        if not Path(config.folder).is_dir():
            raise ConfigError(
                "host_metrics.no_folder",
                f"`folder` {config.folder} is no folder",
                fix="Create it, or name the one that the hosts' agents write to.",
            )

    @classmethod
    def plan(
        cls, config: HostMetricsConfig, max_tasks: int, known: Sequence[Partition]
    ) -> list[Partition]:
        """Divide the hosts, whichever there are and will be, into ranges."""
        ranges = divide_range("host", config.bounds)
        return [Partition({"hosts": f"{one.start}-{one.end}"}, range=one) for one in ranges]

    def connect(self, partitions: Sequence[Partition]) -> None:
        """Take the ranges of the task, and what was read of their metrics before."""
        self.ranges = [partition for partition in partitions if partition.range]
        self.read_until = {p.id: int(p.offset["time"]) for p in partitions if p.offset}
        self.positions: dict[Path, int] = {}
        self.read_all = False

    def read_batch(self) -> Batch | None:
        """Give lines of one range that are newer than the offsets of their metrics."""
        for partition in self.ranges:
            rows = list(islice(self.new_rows(partition), self.config.batch_rows))
            if rows:
                offsets = {}
                for row in rows:
                    id_ = partition_id({"host": row["host"], "metric": row["metric"]})
                    self.read_until[id_] = row["time"]
                    offsets[id_] = {"time": row["time"]}
                return Batch(rows, partition=partition, offsets=offsets, dataset="metrics")
        self.read_all = True
        return None

    def caught_up(self) -> bool:
        """Return whether all was read that there was."""
        return self.read_all

    def new_rows(self, partition: Partition) -> Iterator[dict[str, Any]]:
        """Read whole lines that were appended to the files of a range."""
        for file in sorted(Path(self.config.folder).iterdir()):
            if not (partition.range and partition.range.has_key({"host": file.name})):
                continue
            with file.open("rb") as opened:
                opened.seek(self.positions.get(file, 0))
                while (line := opened.readline()).endswith(b"\n"):
                    self.positions[file] = self.positions.get(file, 0) + len(line)
                    metric, time, value = line.decode().split()
                    id_ = partition_id({"host": file.name, "metric": metric})
                    if int(time) > self.read_until.get(id_, -1):
                        yield {
                            "host": file.name, "metric": metric,
                            "time": int(time), "value": float(value),
                        }  # fmt: skip


if __name__ == "__main__":
    serve(HostMetrics)
