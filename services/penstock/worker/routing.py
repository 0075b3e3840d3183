"""The name of a dataset before the chain sees it: rows that name none go by the connector's
topic.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from penstock.worker.execution import Chain, Compiled


@dataclass(frozen=True, slots=True)
class Routed:
    """A chain whose nameless datasets are called `default`."""

    chain: Chain
    default: str

    def compile(self, dataset: str, schema: pa.Schema) -> Compiled:
        """Fit the chain to a dataset."""
        return self.chain.compile(dataset or self.default, schema)
