"""The name of a dataset before the chain sees it: rows that name none go by the connector's
topic.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from penstock.spark.schema import normal_schema
from penstock.worker.execution import Chain, Compiled


@dataclass(frozen=True, slots=True)
class Routed:
    """A chain whose nameless datasets are called `default`."""

    chain: Chain
    default: str

    def compile(self, dataset: str, schema: pa.Schema) -> Compiled:
        """Fit the chain to a dataset, with the types that the engine brings its rows to.

        Raises:
            ConfigError: it cannot be fitted.
            SchemaError: `engine.unsupported_type`.
        """
        return self.chain.compile(dataset or self.default, normal_schema(schema))
