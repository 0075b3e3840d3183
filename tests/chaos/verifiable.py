"""The verifiable pair as a pipeline: numbered rows in, a ledger of what was committed out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock_kit.testing import Report, Spans, check_delivery, check_delivery_so_far, read_ledger
from support.processes import PLAIN
from system.pipelines import Pipeline


class Verifiable(Pipeline):
    """A bounded, verifiable pipeline. A micro-batch has at most 100 rows: many commits, soon."""

    def __init__(
        self,
        folder: Path,
        *,
        rows: int,
        prune: bool = False,
        delivery: str = "auto",
        module: str = PLAIN,
        **more: Any,
    ) -> None:
        """Give `rows` rows in each of two partitions. `more`: keys of the source. `module`: see
        `Pipeline`.
        """
        self.rows, self.partitions = rows, 2
        self.ledger, self.told = folder / "ledger", folder / "told"
        source = {
            "connector.class": "verifiable-source",
            "partitions": self.partitions,
            "rows": rows,
            "batch.rows": 50,
            "prune": prune,
            "state.dir": str(self.told),
            **more,
        }
        sink = {"connector.class": "verifiable-sink", "ledger": str(self.ledger)}
        rules = {"batch": {"max.rows": 100}, "delivery": delivery}
        super().__init__(folder, {"source": source, "sink": sink, **rules}, module)

    def check(self) -> Report:
        """Compare what was to come with what came."""
        return check_delivery(self._source(self.rows), read_ledger(self.ledger).entries)

    def check_so_far(self) -> Report:
        """Compare what came with itself: rows that have not come yet are no gap."""
        return check_delivery_so_far(read_ledger(self.ledger).entries)

    def arrived(self) -> int:
        """How many rows the ledger holds."""
        return read_ledger(self.ledger).rows

    def told_below(self) -> list[int]:
        """Up to where each partition's source was told; it forgot these rows."""
        files = [file for file in self.told.glob("forgotten-*") if file.suffix != ".new"]
        return [int(file.read_text(encoding="ascii")) for file in files]

    def complete(self, **env: str) -> None:
        """Run to the end, which must be a good one."""
        outcome = self.run(**env)
        assert outcome.code == 0, outcome.output

    def _source(self, rows: int) -> dict[str, Spans]:
        return {str(n): Spans([(0, rows - 1)]) for n in range(self.partitions)}
