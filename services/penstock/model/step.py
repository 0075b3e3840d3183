"""One step of a transform chain, fitted to one schema: what the engine does to a batch of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Step:
    """A condition and a projection, as Spark SQL texts.

    `where`: rows for which it is true are kept. `select`: (column name, SQL expression) in order;
    None keeps all columns.
    `kernel`: an Arrow kernel of the same meaning, or None. It must be picklable, and a property
    test must show that it equals the SQL: then a chain of kernels runs without crossing into the
    JVM.
    """

    where: str | None = None
    select: tuple[tuple[str, str], ...] | None = None
    kernel: Callable[[pa.RecordBatch], pa.RecordBatch] | None = field(default=None, compare=False)
