"""One step of a transform chain, resolved for one schema: what the engine does to a batch of rows.

A row that a step cannot process is rejected: it leaves the batch with a diagnostic, and the other
rows go on. In SQL, the engine evaluates `risky` expressions one row at a time and rejects the rows
that fail; a kernel that can fail on a row has `split_rejected`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

from penstock.model.errors import Diagnostic

ROW: Final = "penstock row"
"""Column with the number of a row in its slot, in chains that can reject rows. No source that
follows the naming rules of columns has a column with a space in its name."""

RejectedRow: TypeAlias = tuple[int, Diagnostic]
"""A rejected row: its number in the slot (-1: unknown), and the reason."""


@runtime_checkable
class RejectingKernel(Protocol):
    """A kernel that can reject single rows."""

    def split_rejected(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, list[RejectedRow]]:
        """Return the processed rows, and the rejected ones by their number in the column `ROW`."""


@dataclass(frozen=True, slots=True)
class Step:
    """A condition and a projection, as Spark SQL texts; or, with neither, a kernel alone.

    Attributes:
        where: Rows for which it is true are kept.
        select: (column name, SQL expression) in order; None keeps all columns.
        kernel: An Arrow kernel of the same meaning, or None. It must be picklable, and a property
            test must show that it equals the SQL: then a chain of kernels runs without crossing
            into the JVM.
        risky: Columns of `select` whose expressions can fail on a row.
        risky_where: Whether `where` can fail on a row.
        failure: The diagnostic of a row on which they fail.
        semantic_types: Of the last step of a chain: all semantic types of columns
            (`penstock_values.semantic_types`).
        labels: Metadata of the rows' schema.
    """

    where: str | None = None
    select: tuple[tuple[str, str], ...] | None = None
    kernel: Callable[[pa.RecordBatch], pa.RecordBatch] | None = field(default=None, compare=False)
    risky: frozenset[str] = frozenset()
    risky_where: bool = False
    failure: Diagnostic | None = None
    semantic_types: tuple[tuple[str, str], ...] | None = None
    labels: tuple[tuple[str, str], ...] = ()

    @property
    def can_reject_rows(self) -> bool:
        """Whether the step can fail on single rows, and then rejects these alone."""
        return bool(self.risky) or self.risky_where or isinstance(self.kernel, RejectingKernel)

    @property
    def only_kernel(self) -> bool:
        """Whether the step has a kernel and no SQL of the same meaning."""
        return self.where is None and self.select is None and self.kernel is not None


@dataclass(frozen=True, slots=True)
class RemoteTransform:
    """A configured transform of a plugin.

    Attributes:
        connector: The transform's name in its plugin.
        config: Its keys.
        path: Its path in the connector's configuration.
        instance: The name of the connector.
        address: The address of the plugin's process; empty until it has started.
        credential: The credential of calls.
        stall_timeout_s: Timeout of a batch, in seconds.
        tls: TLS options as JSON; empty for no TLS.
        version: Allowed versions of its plugin; empty for any.
    """

    connector: str
    config: tuple[tuple[str, str], ...] = field(repr=False)
    path: str
    instance: str = ""
    address: str = ""
    credential: str = field(default="", repr=False)
    stall_timeout_s: float = 60.0
    tls: str = field(default="", repr=False)
    version: str = ""

    @property
    def connection(self) -> dict[str, Any]:
        """How its process is reached, in the form of tickets."""
        tls = {"tls": json.loads(self.tls)} if self.tls else {}
        return {"address": self.address, "credential": self.credential, **tls}


@dataclass(frozen=True, slots=True)
class RemoteStep(Step):
    """A step whose output columns only the plugin knows, when a Spark plan is made for its input
    columns. `rest` resolves the following steps of the chain for these output columns; it is called
    where the plan is made.
    """

    remote: RemoteTransform = field(kw_only=True)
    rest: Callable[[pa.Schema], tuple[Step, ...]] = field(kw_only=True, compare=False)

    @property
    def can_reject_rows(self) -> bool:
        """True: a plugin may reject any row."""
        return True
