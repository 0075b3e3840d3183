"""The names of a dataset: before the chain sees it, where rows that name none go by the connector's
topic; and of the topic that its rows are of, which people want to know.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from penstock.spark.schema import normal_schema
from penstock.transform import Chain, Compiled


@dataclass(frozen=True, slots=True)
class Routed:
    """A chain whose nameless datasets are called `default`. `tell` is told the datasets that rows
    are of, before and after the chain.
    """

    chain: Chain
    default: str
    tell: Callable[[str, str], None]

    @property
    def transforms(self) -> Sequence[str]:
        """Names of its transforms, in order."""
        return self.chain.names

    def until(self, transform: str) -> Routed:
        """Return the chain up to a transform, and with it."""
        return replace(self, chain=self.chain.until(transform))

    def moved(self, before: str, after: str) -> None:
        """Tell that rows of a dataset moved."""
        self.tell(before or self.default, after)

    def compile(self, dataset: str, schema: pa.Schema) -> Compiled:
        """Fit the chain to a dataset, with the types that the engine brings its rows to.

        Raises:
            ConfigError: it cannot be fitted.
            SchemaError: `engine.unsupported_type`.
        """
        return self.chain.compile(dataset or self.default, normal_schema(schema))
