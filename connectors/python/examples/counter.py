"""A source that counts: the smallest connector that can be resumed."""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock_connector import Batch, Partition, Source, key, serve


@dataclass(frozen=True)
class CounterConfig:
    """Keys of the counter."""

    limit: int = key(doc="Numbers to give in all.", required=True)
    batch_rows: int = key(1000, doc="Numbers to give at once.")


class Counter(Source[CounterConfig]):
    """Counts from zero to a limit."""

    name = "counter"
    bounded = True

    def connect(self, partitions: Sequence[Partition]) -> None:
        """Go on where the last committed offset was."""
        offset = partitions[0].offset or {"next": 0}
        self.next = int(offset["next"])

    def read_batch(self) -> Batch | None:
        """Give the next numbers, and the offset after them."""
        end = min(self.next + self.config.batch_rows, self.config.limit)
        rows = [{"number": number} for number in range(self.next, end)]
        self.next = end
        return Batch(rows, offset={"next": end}, dataset="numbers") if rows else None

    def finished(self) -> bool:
        """Return whether the limit was reached."""
        return self.next >= self.config.limit


if __name__ == "__main__":
    serve(Counter)
